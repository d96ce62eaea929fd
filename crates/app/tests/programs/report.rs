//! The page of `qd1 report` in a browser: what is drawn, what moves, and that it asks for nothing.

use std::fs;

use base64::Engine as _;
use serde_json::json;

use crate::common::browser::Browser;
use crate::common::{Place, or_skip};

const READY: &str = "document.documentElement?.dataset.ready === 'yes'";

/// A name that would be markup, script, a control character or a formula, wherever it is shown.
const HOSTILE: &str = "</script><img src=x onerror=alert(1)>\"'`|**=1+1\u{202e}\u{7}";

/// A page of two steps of one run, the first with both kinds of operation.
fn page(place: &Place) -> std::path::PathBuf {
    place.report(&["--only", "qd1,commit1"]);
    let page = place.beside("report.html");
    place.qd1(&["report", "-o", page.to_str().unwrap()]).assert().success();
    page
}

#[test]
fn every_chart_is_drawn_and_the_page_asks_for_nothing() {
    let mut browser = or_skip!(Browser::start(1100, 900));
    let place = Place::new();
    browser.open(&page(&place), READY);
    browser.eval("document.getElementById('open-all').click()");
    browser.wait("document.querySelectorAll('details.group:not([open])').length === 0");
    browser.wait("[...document.querySelectorAll('figure.chart')].every(one => one.querySelector('canvas, table'))");
    let count = browser.eval("document.querySelectorAll('figure.chart canvas').length").as_u64().unwrap();
    // Percentiles and distribution of all; percentiles, course and rate of reads, writes and commits.
    // On a busy machine a step takes longer, and has charts of the machine and the device as well.
    assert!(count >= 10, "{count}");
    // Not one of them is empty: each has pixels of several colours.
    let plain = browser.eval(
        "[...document.querySelectorAll('figure.chart canvas')].filter(canvas => new Set(new Uint32Array(canvas.getContext('2d')
            .getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size < 10).length",
    );
    assert_eq!(plain, json!(0), "charts without lines");
    assert_eq!((browser.complaints(), browser.requests()), (vec![], vec![]));
}

#[test]
fn the_cursor_moves_all_charts_of_a_step_and_zoom_and_keys_work() {
    let mut browser = or_skip!(Browser::start(1100, 900));
    let place = Place::new();
    browser.open(&page(&place), READY);
    browser.eval("document.getElementById('open-all').click()");
    browser.wait("document.querySelectorAll('figure.chart canvas').length >= 10");
    let figures = "[...document.querySelectorAll('figure.chart')].filter(one => one.textContent.trim().startsWith('qd1:') && one.textContent.includes('over time'))";
    browser.eval(&format!("{figures}[0].scrollIntoView({{ block: 'center' }})"));
    let at = |browser: &mut Browser, share: f64| {
        let place = browser.eval(&format!(
            "(() => {{ const box = {figures}[0].querySelector('.u-over').getBoundingClientRect();
                return [box.left + {share} * box.width, box.top + box.height / 2]; }})()"
        ));
        (place[0].as_f64().unwrap(), place[1].as_f64().unwrap())
    };
    let read = format!("{figures}.map(one => one.querySelector('.reading').textContent.split(';')[0])");
    let (x, y) = at(&mut browser, 0.4);
    browser.mouse_to(x, y, false);
    browser.wait(&format!(
        "(all => all.length === 3 && all[0].includes('measured time') && new Set(all).size === 1)({read})"
    ));
    let before = browser.eval(&read);
    // The keyboard moves it on.
    browser.eval(&format!("{figures}[0].querySelector('.plot').focus()"));
    browser.press("ArrowRight");
    browser.wait(&format!("(all => all[0] !== {} && new Set(all).size === 1)({read})", before[0]));

    // What it reads are the values there.
    let reading = browser.eval(&format!("{figures}[0].querySelector('.reading').textContent"));
    assert!(reading.as_str().is_some_and(|text| text.contains("p50 ") && text.contains("slowest ")), "{reading}");

    // A drag zooms every chart of the step, a double click and the key 0 show all again.
    let ticks = |share: &str| format!("{figures}.every(one => one.querySelector('.plot').dataset.shown {share})");
    let (from, to) = (at(&mut browser, 0.25), at(&mut browser, 0.5));
    browser.drag(from, to);
    browser.wait(&ticks("< 0.35"));
    browser.press("0");
    browser.wait(&ticks("> 0.95"));
    browser.press("+");
    browser.wait(&ticks("< 0.6"));
    // No further out than there is anything: on an axis of logarithms there is nothing below zero.
    browser.eval("document.querySelectorAll('figure.chart .plot')[1].focus()");
    browser.press("-");
    browser.press("+");
    browser.press("-");
    browser.press("-");
    browser.wait("document.querySelectorAll('figure.chart .plot')[1].dataset.shown === '1.000'");
    assert_eq!((browser.complaints(), browser.requests()), (vec![], vec![]));
}

#[test]
fn dark_print_table_and_saved_files() {
    let mut browser = or_skip!(Browser::start(1100, 900));
    let place = Place::new();
    let downloads = place.beside("downloads");
    fs::create_dir(&downloads).unwrap();
    browser.open(&page(&place), READY);
    let background = "getComputedStyle(document.body).backgroundColor";
    let media = |value| json!({ "features": [{ "name": "prefers-color-scheme", "value": value }] });
    browser.call("Emulation.setEmulatedMedia", media("dark"));
    browser.wait(&format!("{background} === 'rgb(20, 23, 26)'"));
    browser.eval("document.getElementById('theme').click()");
    browser.wait(&format!("{background} === 'rgb(255, 255, 255)'"));

    let tool = |name: &str| {
        format!(
            "[...document.querySelectorAll('figure.chart .chart-tools button')].find(one => one.textContent === '{name}').click()"
        )
    };
    browser.eval(&tool("Table"));
    let rows = browser.eval("document.querySelectorAll('figure.chart .figures tr').length").as_u64().unwrap();
    assert!(rows > 100, "{rows} rows");

    browser
        .call("Page.setDownloadBehavior", json!({ "behavior": "allow", "downloadPath": downloads.to_str().unwrap() }));
    for name in ["CSV", "SVG", "PNG"] {
        browser.eval(&tool(name));
    }
    browser.eval("document.querySelector('button.save').click()");
    let file = |end: &str| {
        let all = fs::read_dir(&downloads).unwrap().flatten().map(|entry| entry.path());
        all.into_iter()
            .find(|path| path.to_str().is_some_and(|path| path.ends_with(end)))
            .map(|path| fs::read(path).unwrap())
    };
    crate::common::wait_until("all are saved", || {
        [".csv", ".svg", ".png", ".json"].iter().all(|end| file(end).is_some_and(|it| !it.is_empty()))
    });
    assert!(file(".csv").unwrap().starts_with(b"series,share,latency_ns,low,high\r\n"));
    assert!(file(".png").unwrap().starts_with(b"\x89PNG"));
    let svg = String::from_utf8(file(".svg").unwrap()).unwrap();
    assert!(svg.starts_with("<svg") && svg.matches("<path").count() > 10 && !svg.contains("NaN"), "{svg}");
    // What is saved is the run, to the byte of its meaning.
    let saved = place.beside("saved.json");
    fs::write(&saved, file(".json").unwrap()).unwrap();
    let [saved, kept] = [saved.to_str().unwrap(), "@latest"].map(|run| {
        let output = place.qd1(&["report", run]).output().unwrap();
        assert!(output.status.success(), "{}", crate::common::said(&output.stderr));
        let text = crate::common::said(&output.stdout);
        text.split("id=\"record-0\">").nth(1).unwrap().split('<').next().unwrap().to_owned()
    });
    assert_eq!(saved, kept);

    let pdf = browser.call("Page.printToPDF", json!({ "printBackground": true }));
    let pdf = base64::prelude::BASE64_STANDARD.decode(pdf["data"].as_str().unwrap()).unwrap();
    assert!(pdf.starts_with(b"%PDF") && pdf.len() > 50_000, "{} bytes", pdf.len());
    assert_eq!((browser.complaints(), browser.requests()), (vec![], vec![]));
}

#[test]
fn hostile_names_are_text() {
    let mut browser = or_skip!(Browser::start(1100, 900));
    let place = Place::new();
    let mut report = place.report(&["--only", "qd1"]);
    let record = &mut report["record"];
    record["environment"]["hostname"] = json!(HOSTILE.repeat(200));
    record["plan"]["target"]["path"] = json!(HOSTILE);
    for list in ["steps", "plan"] {
        let steps = if list == "plan" { &mut record["plan"]["steps"] } else { &mut record["steps"] };
        steps[0]["name"] = json!(HOSTILE);
        steps[0]["title"] = json!(HOSTILE);
    }
    let [file, page] = ["hostile.json", "hostile.html"].map(|name| place.beside(name));
    fs::write(&file, report.to_string()).unwrap();
    let [file, page_name] = [&file, &page].map(|path| path.to_str().unwrap());
    place.qd1(&["report", file, "-o", page_name]).assert().success();
    browser.open(&page, READY);
    browser.eval("document.getElementById('open-all').click()");
    browser.wait("[...document.querySelectorAll('figure.chart')].every(one => one.querySelector('canvas, table'))");
    assert_eq!(browser.eval("document.querySelectorAll('img, main script, [onerror]').length"), json!(0));
    let text = browser.eval("document.body.innerText + document.title");
    let text = text.as_str().unwrap();
    assert!(text.contains("</script><img src=x onerror=alert(1)>"), "{text}");
    assert!(!text.contains('\u{202e}') && !text.contains('\u{7}'), "hidden characters are written out");
    let is_too_wide = "document.documentElement.scrollWidth > window.innerWidth";
    assert_eq!(browser.eval(is_too_wide), json!(false), "a long name does not widen the page");
    assert_eq!((browser.complaints(), browser.requests()), (vec![], vec![]));
}
