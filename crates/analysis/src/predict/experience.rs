//! Errors of predictions for programs that were then run on this machine, and what they imply for the next prediction.
//!
//! The error of a model, ln(predicted / measured), is assumed to have two parts: one of the machine, which all its
//! disks share (its processors, its version of the program), and one of the disk. Both are normal, and their combined
//! size was measured on other machines (`work.rs`). The machine's part is [`shared`] times the variance of the disk's,
//! as on five disks drawn at random that one machine measured (docs/method/predict.md). So the errors of a few disks
//! here give a Student distribution of the next one's: its mean is subtracted, and its width is the remaining
//! uncertainty (normal inverse gamma: O'Hagan and Forster 2004, Bayesian Inference, section 11.3).

use qd1_model::Record;
use qd1_model::plan::prediction::{DiskError, Experience, PredictionPlan};
use qd1_model::plan::program::Program;
use qd1_model::prediction::{Exactness, Predicted, Predicts};
use qd1_model::record::program::Setting;

use super::{FIGURES, Inputs, predict, rounds::Rounds, verified, work};
use qd1_stats::{Z_975, t_975};

/// The variance of the machine's part, as a multiple of the disk's: what etcd can sustain within a bound on its tail differs
/// from disk to disk by as much as from machine to machine.
const fn shared(what: Predicts) -> f64 {
    match what {
        Predicts::EtcdRate => 1.0,
        _ => 4.0,
    }
}

/// Errors that together weigh less than this say nothing.
const WEIGHT_MIN: f64 = 0.3;
/// How many errors the measurements on other machines count for, regarding how far disks of one machine differ.
const ELSEWHERE: f64 = 8.0;

/// The expected error of a model, as logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Doubt {
    /// ln(predicted / measured).
    pub(super) bias: f64,
    /// Half the width of its 95 % interval.
    pub(super) half_width: f64,
    /// Number of disks on which it was measured here.
    pub(super) disks: u32,
}

impl Doubt {
    /// The expected error of the model of a figure that had these `errors` here.
    pub(super) fn of(what: Predicts, errors: &[DiskError]) -> Self {
        let (elsewhere, shared) = (elsewhere(what), shared(what));
        let of_disk = elsewhere.powi(2) / (1.0 + shared);
        // An error that the interval of the commits may explain counts only partly.
        let weight_of = |one: &DiskError| of_disk / (of_disk + one.sd.powi(2));
        let n: f64 = errors.iter().map(weight_of).sum();
        if n < WEIGHT_MIN {
            return Self { bias: 0.0, half_width: Z_975 * elsewhere, disks: 0 };
        }
        let mean = errors.iter().map(|one| weight_of(one) * one.error).sum::<f64>() / n;
        let weight = n + 1.0 / shared;
        let about_mean: f64 = errors.iter().map(|one| weight_of(one) * (one.error - mean).powi(2)).sum();
        let squares = ELSEWHERE * of_disk + about_mean + n / shared / weight * mean.powi(2);
        let df = ELSEWHERE + n;
        let scale = (squares / df * (1.0 + 1.0 / weight)).sqrt();
        Self {
            bias: n * mean / weight,
            half_width: t_975(df) * scale,
            disks: u32::try_from(errors.len()).unwrap_or(u32::MAX),
        }
    }
}

/// An error of a model on one disk: of which figure, for how many clients, and how large.
pub type PastError = (Predicts, u32, DiskError);

/// Returns how far off the models were in a saved run of `qd1 predict --verify`.
#[must_use]
pub fn errors_of(record: &Record) -> Vec<PastError> {
    if record.programs.is_empty() {
        return Vec::new();
    }
    let mut plain = record.clone();
    plain.plan.prediction =
        record.plan.prediction.clone().map(|plan| PredictionPlan { experience: Vec::new(), ..plan });
    let rows = predict(&plain).map(|prediction| prediction.rows).unwrap_or_default();
    rows.iter().filter_map(error).collect()
}

/// Returns how far off the models are for a saved run of `qd1 app`, given `commits` measured at the same place.
#[must_use]
pub fn errors_beside(app: &Record, commits: &Record) -> Vec<PastError> {
    let mut commits = commits.clone();
    let Some(scale) = scale_of(app) else { return Vec::new() };
    commits.plan.prediction = Some(PredictionPlan { scale, experience: Vec::new() });
    let first = Rounds::of(&commits).first();
    let Some(inputs) = Inputs::of(&commits, &first, &first) else { return Vec::new() };
    let of = |(what, clients)| {
        let mut row = inputs.predict(what, clients)?;
        row.verified = verified::verified(app, &row, None);
        error(&row)
    };
    let program = app.app.as_ref().map(|about| about.program);
    FIGURES.into_iter().filter(|(what, _)| Some(what.program()) == program).filter_map(of).collect()
}

/// Merges the errors of several disks.
#[must_use]
pub fn experience(disks: &[Vec<PastError>]) -> Vec<Experience> {
    let of = |(what, clients)| {
        // Of several errors on one disk, the most certain one.
        let of_disk = |errors: &Vec<PastError>| {
            let same = errors.iter().filter(|error| (error.0, error.1) == (what, clients)).map(|error| error.2);
            same.min_by(|a, b| a.sd.total_cmp(&b.sd))
        };
        let errors: Vec<DiskError> = disks.iter().filter_map(of_disk).collect();
        (!errors.is_empty()).then_some(Experience { what, clients, errors })
    };
    FIGURES.into_iter().filter_map(of).collect()
}

/// The error for a measured figure; for one of which only a bound is known, only if it is beyond that bound.
fn error(row: &Predicted) -> Option<PastError> {
    let verified = row.verified?;
    let error = verified.error.filter(|error| error.is_finite() && *error > -1.0)?;
    let is_known = verified.exactness == Exactness::Measured || error != 0.0;
    let ends = row.value.high.zip(row.value.low).filter(|(_, low)| *low > 0.0);
    let (high, low) = ends.filter(|_| is_known)?;
    // Width beyond the model's own uncertainty comes from the commits.
    let sd = ((high / low).ln() / 2.0 / Z_975).powi(2) - elsewhere(row.what).powi(2);
    Some((row.what, row.clients, DiskError { error: error.ln_1p(), sd: sd.max(0.0).sqrt() }))
}

/// The error of the model of a figure on other machines.
const fn elsewhere(what: Predicts) -> f64 {
    match what {
        Predicts::PostgresTps => work::POSTGRES.doubt,
        Predicts::MysqlTps => work::MYSQL.doubt,
        Predicts::EtcdRate => work::ETCD_DOUBT,
        Predicts::SqliteWalFull | Predicts::SqliteWalNormal | Predicts::SqliteRollbackFull => work::SQLITE_DOUBT,
    }
}

/// The scale of a program's tables; `None` if it did not run as predicted: with other transactions, or commits that are
/// not durable.
fn scale_of(app: &Record) -> Option<u32> {
    let about = app.app.as_ref()?;
    let setting = |name: &str| value_of(&about.settings, name);
    match about.program {
        Program::Postgres => {
            let is_durable =
                ["fsync", "synchronous_commit", "full_page_writes"].iter().all(|name| setting(name) == Some("on"));
            let is_usual = setting("pgbench script").is_some_and(|script| script.contains("tpcb-like"));
            let is_delayed = setting("commit_delay").is_some_and(|delay| delay != "0");
            (is_durable && is_usual && !is_delayed).then(|| setting("pgbench scale")?.parse().ok())?
        }
        Program::Mysql => {
            let is_durable = setting("innodb_flush_log_at_trx_commit") == Some("1");
            is_durable.then(|| setting("scale")?.split_whitespace().next()?.parse().ok())?
        }
        Program::Etcd | Program::Sqlite => Some(super::SCALE),
        _ => None,
    }
}

fn value_of<'a>(settings: &'a [Setting], name: &str) -> Option<&'a str> {
    settings.iter().find(|setting| setting.name == name).map(|setting| setting.value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sharp(error: f64) -> DiskError {
        DiskError { error, sd: 0.0 }
    }

    #[test]
    fn without_errors_the_doubt_is_that_of_other_machines() {
        assert_eq!(Doubt::of(Predicts::PostgresTps, &[]), Doubt { bias: 0.0, half_width: Z_975 * 0.45, disks: 0 });
    }

    #[test]
    fn what_all_disks_of_a_machine_share_is_taken_off_and_the_rest_is_left() {
        // Normal errors: 0.4 for the machine, and these for its disks.
        let disks = [0.15, -0.2, 0.05];
        let doubt = Doubt::of(Predicts::PostgresTps, &disks.map(|of_disk| sharp(0.4 + of_disk)));
        assert!((0.34..0.4).contains(&doubt.bias), "{doubt:?}");
        assert!(doubt.half_width < 0.6 * Z_975 * 0.45 && doubt.half_width > Z_975 * 0.15, "{doubt:?}");
        let apart = Doubt::of(Predicts::PostgresTps, &[1.0, -1.0, 0.5, -0.8].map(sharp));
        assert!(apart.half_width > Z_975 * 0.45, "disks that differ by more than elsewhere: {apart:?}");
        let many = Doubt::of(Predicts::PostgresTps, &[sharp(0.3); 40]);
        assert!((many.bias - 0.3).abs() < 0.01 && many.half_width < 0.3, "{many:?}");
    }

    /// Machines and disks as the model assumes them: the interval is right as often as it claims.
    #[test]
    fn intervals_hold_for_the_next_disk() {
        let mut random = qd1_stats::random::Random::new(7);
        let what = Predicts::PostgresTps;
        let of_disk = (elsewhere(what).powi(2) / (1.0 + shared(what))).sqrt();
        for seen in [1, 3, 10] {
            let mut held = 0;
            for _ in 0..4000 {
                let machine = shared(what).sqrt() * of_disk * random.normal();
                let mut next = || machine + of_disk * random.normal();
                let errors: Vec<DiskError> = (0..seen).map(|_| sharp(next())).collect();
                let doubt = Doubt::of(what, &errors);
                held += u32::from((next() - doubt.bias).abs() <= doubt.half_width);
            }
            let share = f64::from(held) / 4000.0;
            assert!((0.93..0.985).contains(&share), "{seen} disks: {share}");
        }
    }

    /// Commits doubled by a stall say nothing about the model.
    #[test]
    fn an_error_that_the_commits_explain_hardly_counts() {
        let known = [0.3, 0.25].map(sharp);
        let with = [known[0], known[1], DiskError { error: -3.0, sd: 2.0 }];
        let (without, with) = (Doubt::of(Predicts::SqliteWalFull, &known), Doubt::of(Predicts::SqliteWalFull, &with));
        assert!((without.bias - with.bias).abs() < 0.05 && with.half_width < 1.2 * without.half_width, "{with:?}");
    }

    #[test]
    fn a_disk_has_one_vote() {
        let one = |error: f64, sd: f64| (Predicts::SqliteWalFull, 1, DiskError { error, sd });
        let etcd = (Predicts::EtcdRate, 1, sharp(1.0));
        let joined = experience(&[vec![one(0.2, 0.1), one(0.4, 0.3)], vec![one(0.1, 0.2), etcd], Vec::new()]);
        assert_eq!(joined.len(), 2);
        let of = |what| joined.iter().find(|known| known.what == what).unwrap().errors.clone();
        assert_eq!(of(Predicts::SqliteWalFull), [DiskError { error: 0.2, sd: 0.1 }, DiskError { error: 0.1, sd: 0.2 }]);
        assert_eq!(of(Predicts::EtcdRate), [sharp(1.0)]);
    }
}
