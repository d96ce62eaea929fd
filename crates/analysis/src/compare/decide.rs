//! From figures to words: what the primary figures and the exploratory ones come to.

use qd1_model::comparison::{Basis, Effect, Row, Word};
use qd1_model::metric::{Better, metric};

use super::effects::{self, Figures, Spread, Width};
use super::family::{self, MadeUp, Test};
use super::overall;

/// The whole's share of what may be wrong: with several runs of each side it shows most; the whole of single runs may have moved
/// as one, and shows little.
const fn weight_of_whole(basis: Basis) -> f64 {
    match basis {
        Basis::Runs => 0.6,
        Basis::Visits => 0.1,
        Basis::Pairs => 0.4,
    }
}

/// One figure of one side.
#[derive(Clone, Copy)]
struct Of {
    /// Its row; the whole has none.
    row: Option<usize>,
    side: usize,
}

/// Decides what every figure of every side comes to, and returns the effects of the whole, and how wide the intervals of primary
/// figures are.
pub(super) fn decide(
    rows: &mut [(Row, Figures)],
    spreads: &[Option<Spread>],
    sides: usize,
    basis: Basis,
) -> (Vec<Effect>, Width) {
    let whole = overall::figures(rows);
    let made_up = MadeUp::of(rows, spreads);
    let all: Vec<Of> =
        (0..rows.len()).flat_map(|row| (1..sides).map(move |side| Of { row: Some(row), side })).collect();
    let (primary, exploratory): (Vec<Of>, Vec<Of>) =
        all.into_iter().partition(|of| of.row.is_some_and(|row| rows[row].0.is_primary));
    let of_whole: Vec<Of> = whole.iter().flat_map(|_| (1..sides).map(|side| Of { row: None, side })).collect();
    let drawn = |of: Of| {
        let row = of.row?;
        let number = made_up.as_ref()?.numbers[row]?;
        Some((number, rows[row].1.distance(of.side, spreads[row].as_ref())?.0))
    };
    let whole_spread = whole.as_ref().and_then(Figures::between);
    let figures = |of: Of| match (of.row, &whole) {
        (Some(row), _) => Some((&rows[row].1, spreads[row].as_ref())),
        (None, Some(whole)) => Some((whole, whole_spread.as_ref())),
        (None, None) => None,
    };
    let chance = |of: Of| {
        let (figures, spread) = figures(of)?;
        let is_lost = figures.is_lost(of.side, spread) && figures.slack(of.side).is_none();
        figures.chance(of.side, spread).filter(|_| !is_lost)
    };
    let decisive: Vec<Of> = of_whole.iter().chain(&primary).copied().collect();
    let (mine, theirs) = match (of_whole.len(), primary.len()) {
        (0, _) => (0.0, 1.0),
        (_, 0) => (1.0, 0.0),
        _ => (weight_of_whole(basis), 1.0 - weight_of_whole(basis)),
    };
    let test = |of: &Of| Test {
        weight: match of.row {
            None => mine / of_whole.len() as f64,
            Some(_) => theirs / primary.len() as f64,
        },
        chance: chance(*of).unwrap_or(1.0),
        drawn: drawn(*of),
    };
    let tests: Vec<Test> = decisive.iter().map(test).collect();
    let told = family::holm(&tests, made_up.as_ref().map(|made_up| (&made_up.draws, made_up.df)));
    let usual =
        decisive.iter().zip(&told.widths).find(|(of, _)| of.row.is_some()).or(decisive.iter().zip(&told.widths).next());
    let usual = usual.map_or(Width::alone(family::FAMILY_WISE), |(_, width)| *width);

    let explored = Explored::of(&exploratory, made_up.as_ref(), &drawn, &chance);
    let effect = |of: Of, is_told: bool, width: Width, by_chance: Option<f64>| {
        let Some((figures, spread)) = figures(of) else { return Effect::default() };
        let better = of.row.and_then(|row| metric(&rows[row].0.metric)).map_or(Better::Lower, |metric| metric.better);
        let basis = match (spread, figures.pairs(of.side)) {
            (Some(_), _) => Basis::Runs,
            (None, Some(_)) => Basis::Pairs,
            (None, None) => Basis::Visits,
        };
        let effect = effects::conclude(figures.ratio(of.side, spread, width), is_told, better, basis);
        let effect = Effect { chance: by_chance, ..effect };
        if !figures.is_lost(of.side, spread) {
            return effect;
        }
        match figures.slack(of.side) {
            None => Effect { word: Word::CannotTell, within: None, is_spoiled: true, ..effect },
            Some(slack) => {
                let is_spoiled = effect.word == Word::CannotTell;
                Effect { is_spoiled, explained: slack.factor(), ..effect }
            }
        }
    };
    let of_primary: Vec<(Of, Effect)> = decisive
        .iter()
        .zip(told.differs.iter().zip(&told.widths))
        .map(|(of, (differs, width))| (*of, effect(*of, *differs, *width, chance(*of))))
        .collect();
    let of_exploratory: Vec<(Of, Effect)> = exploratory
        .iter()
        .enumerate()
        .map(|(at, of)| (*of, effect(*of, explored.found[at], explored.width(at), explored.known[at])))
        .collect();
    let mut overall = Vec::new();
    for (row, _) in rows.iter_mut() {
        row.effects = vec![Effect::default(); sides - 1];
    }
    for (of, effect) in of_primary.into_iter().chain(of_exploratory) {
        match of.row {
            None => overall.push(effect),
            Some(row) => rows[row].0.effects[of.side - 1] = effect,
        }
    }
    (overall, usual)
}

/// What the exploratory figures come to.
struct Explored {
    found: Vec<bool>,
    /// The chance of each, where it is known.
    known: Vec<Option<f64>>,
    /// Of each, whether it is held against made up comparisons.
    is_drawn: Vec<bool>,
    alone: Width,
    drawn: Width,
}

impl Explored {
    fn of(
        exploratory: &[Of],
        made_up: Option<&MadeUp>,
        drawn: &impl Fn(Of) -> Option<(usize, f64)>,
        chance: &impl Fn(Of) -> Option<f64>,
    ) -> Self {
        let places: Vec<Option<(usize, f64)>> = exploratory.iter().map(|of| drawn(*of)).collect();
        let mut numbers: Vec<usize> = places.iter().flatten().map(|(number, _)| *number).collect();
        numbers.dedup();
        let pooled = made_up.filter(|_| !numbers.is_empty()).map(|made_up| made_up.draws.pooled(&numbers));
        let of = |(of, place): (&Of, &Option<(usize, f64)>)| match (place, &pooled) {
            (Some((_, errors)), Some(pooled)) => Some(pooled.beyond(*errors)),
            _ => chance(*of),
        };
        let known: Vec<Option<f64>> = exploratory.iter().zip(&places).map(of).collect();
        let (found, level) = family::discoveries(&known.iter().map(|known| known.unwrap_or(1.0)).collect::<Vec<_>>());
        let together = pooled.zip(made_up).map(|(pooled, made_up)| (pooled.multiple(level), made_up.df));
        let is_drawn = places.iter().map(Option::is_some).collect();
        Self { found, known, is_drawn, alone: Width::alone(level), drawn: Width { chance: level, together } }
    }

    fn width(&self, at: usize) -> Width {
        if self.is_drawn[at] { self.drawn } else { self.alone }
    }
}
