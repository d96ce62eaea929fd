//! Prints docs/fio.md; `cargo xtask docs` calls it, so that the project's commands need not be built with the product.

fn main() {
    print!("{}", qd1_fio::manual::page());
}
