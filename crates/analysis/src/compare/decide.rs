//! From figures to words: the verdicts on primary and exploratory figures.

use qd1_model::comparison::{Basis, Effect, Row, Word};
use qd1_model::metric::{Better, metric};

use super::effects::{self, Figures, Spread, Width};
use super::family::{self, MadeUp, Test};
use super::overall;

/// The share of the error rate for the whole: with several runs of each side it shows most; the whole of single runs
/// may have moved together, and shows little.
const fn weight_of_whole(basis: Basis) -> f64 {
    match basis {
        Basis::Runs => 0.8,
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

/// What is known about all figures.
struct Known<'a> {
    rows: &'a [(Row, Figures)],
    spreads: &'a [Option<Spread>],
    whole: Option<(Figures, Option<Spread>)>,
    made_up: Option<MadeUp>,
}

/// Decides on every figure of every side, and returns the effects of the whole, and how wide the intervals of primary
/// figures are.
pub(super) fn decide(
    rows: &mut [(Row, Figures)],
    spreads: &[Option<Spread>],
    sides: usize,
    basis: Basis,
) -> (Vec<Effect>, Width) {
    let (decided, width) = Known::of(rows, spreads).decide(sides, basis);
    rows.iter_mut().for_each(|(row, _)| row.effects = vec![Effect::default(); sides - 1]);
    let mut overall = Vec::new();
    for (of, effect) in decided {
        match of.row {
            None => overall.push(effect),
            Some(row) => rows[row].0.effects[of.side - 1] = effect,
        }
    }
    (overall, width)
}

impl<'a> Known<'a> {
    fn of(rows: &'a [(Row, Figures)], spreads: &'a [Option<Spread>]) -> Self {
        let whole = overall::figures(rows).map(|whole| {
            let spread = whole.between();
            (whole, spread)
        });
        Self { rows, spreads, whole, made_up: MadeUp::of(rows, spreads) }
    }

    fn decide(&self, sides: usize, basis: Basis) -> (Vec<(Of, Effect)>, Width) {
        let of_row = |row: Option<usize>| (1..sides).map(move |side| Of { row, side });
        let whole: Vec<Of> = self.whole.iter().flat_map(|_| of_row(None)).collect();
        let is_primary = |of: &Of| of.row.is_some_and(|row| self.rows[row].0.is_primary);
        let all = (0..self.rows.len()).flat_map(|row| of_row(Some(row)));
        let (primary, exploratory): (Vec<Of>, Vec<Of>) = all.partition(is_primary);
        let (of_whole, of_primary) = match (whole.len(), primary.len()) {
            (0, _) => (0.0, 1.0),
            (_, 0) => (1.0, 0.0),
            _ => (weight_of_whole(basis), 1.0 - weight_of_whole(basis)),
        };
        let test = |of: &Of| Test {
            weight: match of.row {
                None => of_whole / whole.len() as f64,
                Some(_) => of_primary / primary.len() as f64,
            },
            chance: self.chance(*of).unwrap_or(1.0),
            drawn: self.drawn(*of),
        };
        // The figures before the whole, whose width differs.
        let decisive: Vec<Of> = primary.iter().chain(&whole).copied().collect();
        let tests: Vec<Test> = decisive.iter().map(test).collect();
        let told = family::holm(&tests, self.made_up.as_ref().map(|made_up| (&made_up.draws, made_up.df)));
        let explored = Explored::of(self, &exploratory);
        let of_decisive = decisive
            .iter()
            .enumerate()
            .map(|(at, of)| (*of, self.effect(*of, told.differs[at], told.widths[at], self.chance(*of))));
        let of_exploratory = exploratory
            .iter()
            .enumerate()
            .map(|(at, of)| (*of, self.effect(*of, explored.found[at], explored.width(at), explored.known[at])));
        let usual = told.widths.first().copied().unwrap_or(Width::alone(family::FAMILY_WISE));
        (of_decisive.chain(of_exploratory).collect(), usual)
    }

    fn figures(&self, of: Of) -> Option<(&Figures, Option<&Spread>)> {
        match of.row {
            Some(row) => Some((&self.rows[row].1, self.spreads[row].as_ref())),
            None => self.whole.as_ref().map(|(whole, spread)| (whole, spread.as_ref())),
        }
    }

    /// Its number among simulated comparisons, and how many standard errors it is away.
    fn drawn(&self, of: Of) -> Option<(usize, f64)> {
        let number = self.made_up.as_ref()?.numbers[of.row?]?;
        let (figures, spread) = self.figures(of)?;
        Some((number, figures.distance(of.side, spread)?.0))
    }

    /// The chance that equal sides would be this far apart; `None` if unknown.
    fn chance(&self, of: Of) -> Option<f64> {
        let (figures, spread) = self.figures(of)?;
        let is_lost = figures.is_lost(of.side, spread) && figures.slack(of.side).is_none();
        figures.chance(of.side, spread).filter(|_| !is_lost)
    }

    fn effect(&self, of: Of, is_told: bool, width: Width, chance: Option<f64>) -> Effect {
        let Some((figures, spread)) = self.figures(of) else { return Effect::default() };
        let better = of.row.and_then(|row| metric(&self.rows[row].0.metric)).map_or(Better::Lower, |of| of.better);
        let basis = match (spread, figures.pairs(of.side)) {
            (Some(_), _) => Basis::Runs,
            (None, Some(_)) => Basis::Pairs,
            (None, None) => Basis::Visits,
        };
        let effect = effects::conclude(figures.ratio(of.side, spread, width), is_told, better, basis);
        let effect = Effect { chance, ..effect };
        match figures.slack(of.side) {
            _ if !figures.is_lost(of.side, spread) => effect,
            None => Effect { word: Word::CannotTell, within: None, is_spoiled: true, ..effect },
            Some(slack) => Effect { is_spoiled: effect.word == Word::CannotTell, explained: slack.factor(), ..effect },
        }
    }
}

/// The verdicts on the exploratory figures.
struct Explored {
    found: Vec<bool>,
    /// The chance of each, if it is known.
    known: Vec<Option<f64>>,
    /// For each, whether it is compared with simulated comparisons.
    is_drawn: Vec<bool>,
    alone: Width,
    drawn: Width,
}

impl Explored {
    fn of(known: &Known<'_>, exploratory: &[Of]) -> Self {
        let places: Vec<Option<(usize, f64)>> = exploratory.iter().map(|of| known.drawn(*of)).collect();
        let mut numbers: Vec<usize> = places.iter().flatten().map(|(number, _)| *number).collect();
        numbers.dedup();
        let made_up = known.made_up.as_ref().filter(|_| !numbers.is_empty());
        let pooled = made_up.map(|made_up| made_up.draws.pooled(&numbers));
        let chance = |(of, place): (&Of, &Option<(usize, f64)>)| match (place, &pooled) {
            (Some((_, errors)), Some(pooled)) => Some(pooled.beyond(*errors)),
            _ => known.chance(*of),
        };
        let known: Vec<Option<f64>> = exploratory.iter().zip(&places).map(chance).collect();
        // Nothing can be discovered about figures whose chance is unknown.
        let tested: Vec<f64> = known.iter().flatten().copied().collect();
        let (discovered, level) = family::discoveries(&tested);
        let mut discovered = discovered.into_iter();
        let found = known.iter().map(|known| known.is_some() && discovered.next() == Some(true)).collect();
        let together = pooled.zip(made_up).map(|(pooled, made_up)| (pooled.multiple(level), made_up.df));
        let is_drawn = places.iter().map(Option::is_some).collect();
        Self { found, known, is_drawn, alone: Width::alone(level), drawn: Width { chance: level, together } }
    }

    fn width(&self, at: usize) -> Width {
        if self.is_drawn[at] { self.drawn } else { self.alone }
    }
}
