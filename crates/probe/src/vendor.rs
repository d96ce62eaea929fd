//! Whose machine this is, from DMI: one table row per vendor.
//!
//! The strings are those that cloud-init's `ds-identify` and systemd's `detect-virt` look for, and those that the
//! vendors themselves put into `sys_vendor` or `product_name`.

use crate::Machine;

/// One way to recognise a vendor.
pub(crate) struct Vendor {
    /// File in `/sys/class/dmi/id`.
    field: &'static str,
    /// Text it contains.
    text: &'static str,
    /// Name for reports.
    pub(crate) name: &'static str,
    /// Hypervisor that the vendor runs its virtual machines on, if known.
    pub(crate) hypervisor: &'static str,
}

const fn row(field: &'static str, text: &'static str, name: &'static str, hypervisor: &'static str) -> Vendor {
    Vendor { field, text, name, hypervisor }
}

/// In order: a cloud that leaves the emulator's name in `sys_vendor` comes before the emulator.
const VENDORS: &[Vendor] = &[
    row("chassis_asset_tag", "OracleCloud.com", "Oracle Cloud", "kvm"),
    row("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77", "Microsoft Azure", "microsoft"),
    row("chassis_asset_tag", "ibmcloud", "IBM Cloud", "kvm"),
    row("sys_vendor", "Amazon EC2", "Amazon EC2", "kvm"),
    row("bios_vendor", "Amazon EC2", "Amazon EC2", "kvm"),
    row("bios_version", "amazon", "Amazon EC2", "xen"),
    row("product_name", "Google Compute Engine", "Google Cloud", "kvm"),
    row("sys_vendor", "DigitalOcean", "DigitalOcean", "kvm"),
    row("sys_vendor", "Hetzner", "Hetzner", "kvm"),
    row("sys_vendor", "Vultr", "Vultr", "kvm"),
    row("sys_vendor", "Linode", "Linode/Akamai", "kvm"),
    row("sys_vendor", "Akamai", "Linode/Akamai", "kvm"),
    row("sys_vendor", "OVH", "OVHcloud", "kvm"),
    row("product_name", "OVH", "OVHcloud", "kvm"),
    row("sys_vendor", "Scaleway", "Scaleway", "kvm"),
    row("sys_vendor", "Alibaba", "Alibaba Cloud", "kvm"),
    row("sys_vendor", "Tencent Cloud", "Tencent Cloud", "kvm"),
    row("sys_vendor", "Huawei Cloud", "Huawei Cloud", "kvm"),
    row("sys_vendor", "UpCloud", "UpCloud", "kvm"),
    row("sys_vendor", "Exoscale", "Exoscale", "kvm"),
    row("product_name", "CloudSigma", "CloudSigma", "kvm"),
    row("sys_vendor", "OpenStack", "OpenStack", "kvm"),
    row("product_name", "OpenStack", "OpenStack", "kvm"),
    row("sys_vendor", "Nutanix", "Nutanix", "kvm"),
    row("sys_vendor", "VMware", "VMware", "vmware"),
    row("sys_vendor", "innotek", "VirtualBox", "oracle"),
    row("product_name", "VirtualBox", "VirtualBox", "oracle"),
    row("sys_vendor", "Parallels", "Parallels", "parallels"),
    row("sys_vendor", "Xen", "Xen", "xen"),
    row("sys_vendor", "Apple Virtualization", "Apple Virtualization", "apple"),
    row("product_name", "BHYVE", "bhyve", "bhyve"),
    row("product_name", "Virtual Machine", "Microsoft Hyper-V", "microsoft"),
    row("sys_vendor", "QEMU", "QEMU", "qemu"),
    row("product_name", "KVM", "KVM", "kvm"),
    row("bios_vendor", "SeaBIOS", "QEMU", "qemu"),
];

/// What board makers leave in DMI when nobody fills it in.
const BLANKS: &[&str] = &[
    "to be filled by o.e.m.",
    "system manufacturer",
    "system product name",
    "default string",
    "not specified",
    "none",
];

impl Machine {
    /// A DMI string; empty if missing or a placeholder.
    pub(crate) fn dmi(&self, field: &str) -> String {
        let text = self.text(format!("/sys/class/dmi/id/{field}"));
        if BLANKS.contains(&text.to_ascii_lowercase().as_str()) { String::new() } else { text }
    }

    /// The matching row of the table.
    pub(crate) fn known_vendor(&self) -> Option<&'static Vendor> {
        VENDORS.iter().find(|vendor| self.dmi(vendor.field).contains(vendor.text))
    }

    /// The vendor's name: from the table, otherwise from DMI.
    pub(crate) fn vendor(&self) -> String {
        self.known_vendor().map_or_else(|| self.dmi("sys_vendor"), |vendor| vendor.name.to_owned())
    }

    /// The product's name: DMI's, else the device tree's model (ARM boards).
    pub(crate) fn product(&self) -> String {
        let product = self.dmi("product_name");
        if product.is_empty() { self.text("/proc/device-tree/model") } else { product }
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::Fixture;

    fn named(fields: &[(&str, &str)]) -> String {
        let fixture = fields.iter().fold(Fixture::new(), |fixture, (field, text)| {
            fixture.file(&format!("/sys/class/dmi/id/{field}"), &format!("{text}\n"))
        });
        fixture.machine().vendor()
    }

    #[test]
    fn the_common_clouds_are_known() {
        for (fields, name) in [
            (&[("sys_vendor", "Amazon EC2"), ("product_name", "m7i.large")][..], "Amazon EC2"),
            (&[("sys_vendor", "Xen"), ("product_name", "HVM domU"), ("bios_version", "4.11.amazon")], "Amazon EC2"),
            (&[("sys_vendor", "Google"), ("product_name", "Google Compute Engine")], "Google Cloud"),
            (
                &[
                    ("sys_vendor", "Microsoft Corporation"),
                    ("product_name", "Virtual Machine"),
                    ("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77"),
                ],
                "Microsoft Azure",
            ),
            (&[("sys_vendor", "Microsoft Corporation"), ("product_name", "Virtual Machine")], "Microsoft Hyper-V"),
            (&[("sys_vendor", "DigitalOcean"), ("product_name", "Droplet")], "DigitalOcean"),
            (&[("sys_vendor", "Hetzner"), ("product_name", "vServer")], "Hetzner"),
            (&[("sys_vendor", "Vultr"), ("product_name", "VC2")], "Vultr"),
            (&[("sys_vendor", "Akamai Technologies")], "Linode/Akamai"),
            (&[("sys_vendor", "Linode"), ("product_name", "Compute Instance")], "Linode/Akamai"),
            (&[("sys_vendor", "OVHcloud")], "OVHcloud"),
            (&[("sys_vendor", "Scaleway"), ("product_name", "SCW-DEV1-S")], "Scaleway"),
            (&[("sys_vendor", "QEMU"), ("chassis_asset_tag", "OracleCloud.com")], "Oracle Cloud"),
            (&[("sys_vendor", "Alibaba Cloud"), ("product_name", "Alibaba Cloud ECS")], "Alibaba Cloud"),
            (&[("sys_vendor", "QEMU"), ("product_name", "Standard PC (i440FX + PIIX, 1996)")], "QEMU"),
        ] {
            assert_eq!(named(fields), name, "{fields:?}");
        }
    }

    #[test]
    fn an_unknown_maker_is_named_as_it_names_itself() {
        assert_eq!(named(&[("sys_vendor", "LENOVO")]), "LENOVO");
        assert_eq!(named(&[("sys_vendor", "To Be Filled By O.E.M.")]), "");
        assert_eq!(named(&[]), "");
    }
}
