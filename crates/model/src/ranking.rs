//! Disks in the order of their figures.

use crate::figure::Estimate;
use crate::op::OpClass;
use crate::verdict::Verdict;

/// Disks, and a list of them for each figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranking {
    /// All of them, in the order of their names.
    pub disks: Vec<RankedDisk>,
    /// Grades by class of workload, for the disks whose runs were judged by classes, the best disk first.
    pub graded: Vec<GradedDisk>,
    /// How many times as long operations take as on the best disk, as the geometric mean over the kinds of operation
    /// shared by all disks that share any with the disk that has the most; absent with fewer than two kinds.
    pub overall: Option<Vec<Place>>,
    /// One for each figure that at least two disks have, in the order of the steps.
    pub lists: Vec<RankList>,
    /// Products with several hosts, for each of the leading figures.
    pub products: Vec<OfProduct>,
}

impl Ranking {
    /// Whether the disk with this number is in any list.
    #[must_use]
    pub fn has(&self, disk: usize) -> bool {
        self.lists.iter().flat_map(|list| &list.places).any(|place| place.disk == disk)
    }
}

/// A disk of a ranking.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankedDisk {
    /// Its name.
    pub name: String,
    /// Number of its runs.
    pub runs: usize,
    /// Tools that ran them, each once.
    pub tools: Vec<String>,
    /// The product it belongs to, if its results say so.
    pub product: Option<String>,
}

/// The grades of a disk.
#[derive(Clone, Debug, PartialEq)]
pub struct GradedDisk {
    /// The disk, by its number in the ranking.
    pub disk: usize,
    /// Each class once.
    pub classes: Vec<ClassGrade>,
}

/// A class of workload on a disk with one or more runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassGrade {
    /// The verdict of the worst run.
    pub verdict: Verdict,
    /// How many runs have its grade.
    pub alike: usize,
    /// How many runs were judged by the class.
    pub runs: usize,
}

/// The hosts of a product by one figure.
#[derive(Clone, Debug, PartialEq)]
pub struct OfProduct {
    /// Provider and product.
    pub product: String,
    /// How many hosts have the figure.
    pub hosts: usize,
    /// The step's name.
    pub step: String,
    /// Kind of operation.
    pub op: OpClass,
    /// Which figure: the name of a [`crate::metric::Metric`].
    pub metric: String,
    /// The median of the hosts.
    pub median: f64,
    /// The worst of them.
    pub worst: f64,
}

/// The disks in the order of one figure.
#[derive(Clone, Debug, PartialEq)]
pub struct RankList {
    /// The step's name.
    pub step: String,
    /// What it does, for people.
    pub title: String,
    /// Kind of operation.
    pub op: OpClass,
    /// Which figure: the name of a [`crate::metric::Metric`].
    pub metric: String,
    /// Whether it is among the figures that users of the step notice first.
    pub leads: bool,
    /// The best first; those without a rank last.
    pub places: Vec<Place>,
}

/// A disk's place in a list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// The disk, by its number in the ranking.
    pub disk: usize,
    /// Its rank: one more than the number of disks that are significantly better. Absent without an interval, and if
    /// something other than the disk spoiled the step of a single run.
    pub rank: Option<usize>,
    /// The figure, geometric mean over its runs; in 95 of 100 lists, all intervals of the list hold.
    pub figure: Estimate,
    /// Whether something other than the disk spoiled the step.
    pub is_spoiled: bool,
}
