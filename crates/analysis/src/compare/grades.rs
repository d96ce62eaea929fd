//! Disks in the order of their grades by class of workload, for disks whose runs were judged by classes.

use qd1_model::order::Order as _;
use qd1_model::ranking::{ClassGrade, GradedDisk, Ranking};
use qd1_model::{Grade, OpClass, Verdict};

/// From the grade that counts most to the one that counts least: what one run showed is not withdrawn by another that
/// could not tell.
const WEIGHTS: [Grade; 4] = [Grade::Fail, Grade::Marginal, Grade::Pass, Grade::NotResolved];

/// Puts the grades of disks into a ranking, those with the fewest failures first, and among equal ones those with the
/// shortest commits. `runs` has the verdicts of each run of each disk, by its number in the ranking.
pub fn grade(ranking: &mut Ranking, runs: &[Vec<Vec<Verdict>>]) {
    let mut graded: Vec<GradedDisk> = runs
        .iter()
        .enumerate()
        .map(|(disk, runs)| GradedDisk { disk, classes: classes(runs) })
        .filter(|graded| !graded.classes.is_empty())
        .collect();
    let count = |graded: &GradedDisk, of: &[Grade]| {
        graded.classes.iter().filter(|class| of.contains(&class.verdict.grade)).count()
    };
    let commits = |disk: usize| commit_p99(ranking, disk).unwrap_or(f64::INFINITY);
    graded.order_by(|a, b| {
        let by = |grades: &[Grade]| count(a, grades).cmp(&count(b, grades));
        by(&[Grade::Fail])
            .then(by(&[Grade::Marginal, Grade::NotResolved]))
            .then(commits(a.disk).total_cmp(&commits(b.disk)))
            .then(a.disk.cmp(&b.disk))
    });
    ranking.graded = graded;
}

/// The worst verdict of each class, in the order in which runs have them.
fn classes(runs: &[Vec<Verdict>]) -> Vec<ClassGrade> {
    let weight = |grade: Grade| WEIGHTS.iter().position(|other| *other == grade);
    let mut classes: Vec<ClassGrade> = Vec::new();
    for verdict in runs.iter().flatten() {
        let Some(class) = classes.iter_mut().find(|class| class.verdict.class == verdict.class) else {
            classes.push(ClassGrade { verdict: verdict.clone(), alike: 1, runs: 1 });
            continue;
        };
        class.runs += 1;
        if class.verdict.grade == verdict.grade {
            class.alike += 1;
        } else if weight(verdict.grade) < weight(class.verdict.grade) {
            (class.verdict, class.alike) = (verdict.clone(), 1);
        }
    }
    classes
}

/// The p99 of a disk's commits by one writer, ns.
fn commit_p99(ranking: &Ranking, disk: usize) -> Option<f64> {
    let mut lists = ranking.lists.iter().filter(|list| list.op == OpClass::Commit && list.metric == "lat_p99_ns");
    let list = lists.clone().find(|list| list.step == "commit1").or_else(|| lists.next())?;
    list.places.iter().find(|place| place.disk == disk)?.figure.value
}

#[cfg(test)]
mod tests {
    use super::*;
    use qd1_model::Estimate;
    use qd1_model::ranking::{Place, RankList};

    fn verdict(class: &str, grade: Grade) -> Verdict {
        Verdict { class: class.to_owned(), title: class.to_owned(), grade, judged: Vec::new() }
    }

    fn run(grades: [Grade; 2]) -> Vec<Verdict> {
        vec![verdict("etcd", grades[0]), verdict("bulk", grades[1])]
    }

    #[test]
    fn disks_stand_by_their_failures_and_then_by_their_commits() {
        use Grade::{Fail, Marginal, NotResolved, Pass};
        let place = |disk, p99| Place { disk, rank: None, figure: Estimate::exact(p99, 9), is_spoiled: false };
        let list = RankList {
            step: "commit1".to_owned(),
            title: String::new(),
            op: OpClass::Commit,
            metric: "lat_p99_ns".to_owned(),
            leads: true,
            places: vec![place(0, 9e6), place(1, 1e6), place(2, 2e6), place(3, 3e6)],
        };
        let mut ranking = Ranking { lists: vec![list], ..Ranking::default() };
        let runs = [
            vec![run([Fail, Pass])],
            vec![run([Pass, Marginal])],
            vec![run([Pass, Pass])],
            vec![run([NotResolved, Pass])],
            Vec::new(),
        ];
        grade(&mut ranking, &runs);
        let order: Vec<usize> = ranking.graded.iter().map(|graded| graded.disk).collect();
        assert_eq!(order, [2, 1, 3, 0], "one without verdicts is not graded");
    }

    #[test]
    fn the_worst_run_decides_and_one_that_cannot_tell_takes_nothing_back() {
        use Grade::{Fail, Marginal, NotResolved, Pass};
        let found =
            classes(&[run([Pass, NotResolved]), run([Fail, Pass]), run([Fail, NotResolved]), run([Marginal, Pass])]);
        let of = |at: usize| (found[at].verdict.grade, found[at].alike, found[at].runs);
        assert_eq!(of(0), (Fail, 2, 4));
        assert_eq!(of(1), (Pass, 2, 4));
    }
}
