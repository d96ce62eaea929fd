//! What Amazon's NVMe devices count: for how long demand was above what a volume or its instance allows.
//!
//! EBS volumes and instance store volumes of Nitro instances answer Get Log Page D0h with a page of their own, as root.
//! Its layout is that of `ebsnvme` in Amazon's `amazon-ec2-utils` (`nvme_get_amzn_stats_logpage`), of nvme-cli's plugin
//! `amzn` (`amzn_latency_log_page_base`) and of the CloudWatch agent (`receiver/awsnvmereceiver`), which agree on page,
//! magic numbers and offsets. The counters' meaning is documented in the user guides, in "Amazon EBS detailed
//! performance statistics" and "Detailed performance statistics for Amazon EC2 instance store volumes". No such device
//! was at hand: nothing here has been tried on one.

use std::fs::File;
use std::path::PathBuf;

use crate::nvme::{Command, admin, controller};
use crate::{Machine, text_of};

const LOG_PAGE: u8 = 0xD0;
/// What Amazon's tools ask for; a page of an instance store volume goes on with histograms.
const PAGE_BYTES: usize = 4096;

/// Whose counters they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ebs,
    InstanceStore,
}

impl Kind {
    const fn of_model(model: &str) -> Option<Self> {
        match model.as_bytes() {
            b"Amazon Elastic Block Store" => Some(Self::Ebs),
            b"Amazon EC2 NVMe Instance Storage" => Some(Self::InstanceStore),
            _ => None,
        }
    }

    const fn magic(self) -> u32 {
        match self {
            Self::Ebs => 0x3C23_B510,
            Self::InstanceStore => 0xEC2C_0D7E,
        }
    }
}

/// For how long demand was above each limit since the volume was attached or the instance was started, us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// The volume's own limits: IOPS and throughput.
    pub volume_us: [u64; 2],
    /// What the instance allows for EBS: IOPS and throughput; `None` for an instance store volume.
    pub instance_us: Option<[u64; 2]>,
}

/// A device with such counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmazonDevice {
    kind: Kind,
    node: PathBuf,
    namespace: u32,
    /// The volume's id: another volume may get the same name.
    pub serial: String,
}

impl Machine {
    /// The block device with this kernel name, if its model is one of Amazon's.
    #[must_use]
    pub fn amazon_device(&self, name: &str) -> Option<AmazonDevice> {
        let block = self.block_named(name)?;
        let controller = controller(&block)?;
        let kind = Kind::of_model(&text_of(&controller.join("model")))?;
        Some(AmazonDevice {
            kind,
            node: self.below("/dev").join(controller.file_name()?),
            namespace: block.attr("nsid").parse().unwrap_or(1),
            serial: text_of(&controller.join("serial")),
        })
    }
}

impl AmazonDevice {
    /// Asks the device; `None` if this user may not, or it does not answer as documented. A device that hangs takes as
    /// long as the kernel's limit for such commands (60 s, if it was not changed).
    #[must_use]
    pub fn exceeded(&self) -> Option<Exceeded> {
        let file = File::open(&self.node).ok()?;
        let mut page = vec![0; PAGE_BYTES];
        let command = Command::log_page(LOG_PAGE, PAGE_BYTES, self.namespace);
        admin(&file, command, &mut page).then(|| parse(self.kind, &page))?
    }
}

/// The page begins with its magic number and a version, 32 bits each. Counters of 64 bits follow: operations, bytes and
/// time of reads and writes, then the time above the volume's IOPS (56) and throughput (64), and above the instance's
/// (72, 80). An instance store volume counts the time above its own limits in the last two.
fn parse(kind: Kind, page: &[u8]) -> Option<Exceeded> {
    let magic = u32::from_le_bytes(*page.first_chunk()?);
    if magic != kind.magic() {
        return None;
    }
    let counter = |at: usize| Some(u64::from_le_bytes(*page.get(at..)?.first_chunk()?));
    let (first, last) = ([counter(56)?, counter(64)?], [counter(72)?, counter(80)?]);
    Some(match kind {
        Kind::Ebs => Exceeded { volume_us: first, instance_us: Some(last) },
        Kind::InstanceStore => Exceeded { volume_us: last, instance_us: None },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    /// A page by the documented layout; all but the four counters are filled with ones.
    fn page(magic: u32) -> Vec<u8> {
        let mut page = magic.to_le_bytes().to_vec();
        page.extend(1u32.to_le_bytes());
        for counter in [
            "total_read_ops",
            "total_write_ops",
            "total_read_bytes",
            "total_write_bytes",
            "total_read_time",
            "total_write_time",
            "ebs_volume_performance_exceeded_iops",
            "ebs_volume_performance_exceeded_tp",
            "ec2_instance_ebs_performance_exceeded_iops",
            "ec2_instance_ebs_performance_exceeded_tp",
            "volume_queue_length",
        ] {
            let value: u64 = match counter {
                "ebs_volume_performance_exceeded_iops" => 43_000_000,
                "ebs_volume_performance_exceeded_tp" => 7 << 40,
                "ec2_instance_ebs_performance_exceeded_iops" => 11,
                "ec2_instance_ebs_performance_exceeded_tp" => 2_000_000,
                _ => u64::MAX,
            };
            page.extend(value.to_le_bytes());
        }
        page.resize(PAGE_BYTES, 0xFF);
        page
    }

    #[test]
    fn counters_are_read_by_the_documented_layout() {
        let ebs = Exceeded { volume_us: [43_000_000, 7 << 40], instance_us: Some([11, 2_000_000]) };
        assert_eq!(parse(Kind::Ebs, &page(0x3C23_B510)), Some(ebs));
        let store = Exceeded { volume_us: [11, 2_000_000], instance_us: None };
        assert_eq!(parse(Kind::InstanceStore, &page(0xEC2C_0D7E)), Some(store));
    }

    #[test]
    fn a_page_that_is_not_the_models_or_is_short_has_no_counters() {
        assert_eq!(parse(Kind::Ebs, &page(0xEC2C_0D7E)), None, "the magic number of the other model");
        assert_eq!(parse(Kind::InstanceStore, &page(0x3C23_B510)), None);
        assert_eq!(parse(Kind::Ebs, &[0; PAGE_BYTES]), None);
        let whole = page(0x3C23_B510);
        for length in 0..88 {
            assert_eq!(parse(Kind::Ebs, &whole[..length]), None, "{length}");
        }
        assert!(parse(Kind::Ebs, &whole[..88]).is_some());
    }

    #[test]
    fn only_amazons_models_are_asked() {
        let model = |model: &str| {
            fixture::laptop()
                .file("/sys/devices/pci0000:00/nvme0/model", model)
                .file("/sys/devices/pci0000:00/nvme0/serial", "vol0123456789abcdef0\n")
                .file("/dev/nvme0", "a file is not a controller")
                .machine()
        };
        let machine = model("Amazon Elastic Block Store              \n");
        let device = machine.amazon_device("nvme0n1").unwrap();
        assert_eq!((device.kind, device.namespace, device.serial.as_str()), (Kind::Ebs, 1, "vol0123456789abcdef0"));
        assert!(device.node.is_file() && device.node.ends_with("dev/nvme0"));
        assert_eq!(device.exceeded(), None);
        assert_eq!(machine.amazon_device("dm-0"), None, "its disk has the counters");
        let store = model("Amazon EC2 NVMe Instance Storage\n").amazon_device("nvme0n1").map(|device| device.kind);
        assert_eq!(store, Some(Kind::InstanceStore));
        assert_eq!(model("Samsung SSD 980 PRO 1TB\n").amazon_device("nvme0n1"), None);
    }
}
