//! A connection string: what is left of it without its secrets has none.
#![no_main]

use libfuzzer_sys::fuzz_target;
use qd1_programs::without_password;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let public = without_password(text);
    assert_eq!(without_password(&public), public, "of {text:?}");
    // A password that nothing else can be mistaken for.
    const SECRET: &str = "s3cr3t-of-the-fuzzer";
    for with in [format!("password={SECRET} {text}"), format!("password = '{SECRET}'{text}")] {
        let public = without_password(&with);
        assert!(!public.contains(SECRET) || text.contains(SECRET), "{with:?} became {public:?}");
    }
});
