//! From the Markdown form of a report to HTML: the same words, in one place.

use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// Words in bold that have a colour of their own.
const MARKED: [(&str, &str); 9] = [
    ("pass", "good"),
    ("better", "good"),
    ("marginal", "middling"),
    ("warning", "middling"),
    ("fail", "bad"),
    ("worse", "bad"),
    ("critical", "bad"),
    ("not resolved", "open"),
    ("info", "open"),
];

/// Sections that are long, and shown after a click.
const FOLDED: [&str; 5] =
    ["Verdict", "Criteria", "What programs wait for: queue depth 1 and commits", "All steps", "The slowest requests"];

/// Returns Markdown of our own as HTML. Names from outside are escaped in it; if one is not, it is still shown as text:
/// there are no links, no pictures and no tags. Its headings have this level.
pub(super) fn of_markdown(text: &str, level: HeadingLevel) -> String {
    let events = Parser::new_ext(text, Options::ENABLE_TABLES).filter_map(|event| harmless(event, level));
    let events: Vec<Event<'_>> = events.collect();
    let mut shown = Vec::with_capacity(events.len());
    let (mut at, mut is_folded) = (0, false);
    let html = |text: &'static str| Event::Html(CowStr::from(text));
    while at < events.len() {
        match &events[at..] {
            [Event::Start(Tag::Strong), Event::Text(word), Event::End(TagEnd::Strong), ..] if class(word).is_some() => {
                let class = class(word).unwrap_or_default();
                shown.push(Event::InlineHtml(CowStr::from(format!("<strong class=\"{class}\">"))));
                shown.push(Event::Text(word.clone()));
                shown.push(Event::InlineHtml(CowStr::from("</strong>")));
                at += 3;
            }
            [Event::Start(Tag::Heading { .. }), Event::Text(title), ..] => {
                if std::mem::take(&mut is_folded) {
                    shown.push(html("</details>\n"));
                }
                is_folded = FOLDED.contains(&&**title);
                if is_folded {
                    shown.push(html("<details class=\"folded\">\n<summary>"));
                }
                shown.push(events[at].clone());
                at += 1;
            }
            [Event::End(TagEnd::Heading(_)), ..] => {
                shown.push(events[at].clone());
                if is_folded {
                    shown.push(html("</summary>\n"));
                }
                at += 1;
            }
            [Event::Start(Tag::Table(columns)), ..] => {
                shown.push(html("<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Table\">"));
                shown.push(Event::Start(Tag::Table(columns.clone())));
                at += 1;
            }
            [Event::End(TagEnd::Table), ..] => {
                shown.extend([Event::End(TagEnd::Table), html("</div>\n")]);
                at += 1;
            }
            [other, ..] => {
                shown.push(other.clone());
                at += 1;
            }
            [] => break,
        }
    }
    if is_folded {
        shown.push(html("</details>\n"));
    }
    let mut page = String::new();
    pulldown_cmark::html::push_html(&mut page, shown.into_iter());
    // The policy forbids style attributes. In text their quotes are escaped, so only tags change.
    page.replace("<td style=\"text-align: right\">", "<td class=\"number\">")
        .replace("<th style=\"text-align: right\">", "<th class=\"number\">")
}

fn class(word: &str) -> Option<&'static str> {
    let is_it = |(known, _): &&(&str, &str)| word.eq_ignore_ascii_case(known);
    MARKED.iter().find(is_it).map(|(_, class)| *class)
}

/// What is not text, a table or a list of ours becomes text; all headings have the same level.
fn harmless(event: Event<'_>, level: HeadingLevel) -> Option<Event<'_>> {
    match event {
        Event::Html(text) | Event::InlineHtml(text) => Some(Event::Text(text)),
        Event::Start(Tag::Link { .. } | Tag::Image { .. } | Tag::HtmlBlock)
        | Event::End(TagEnd::Link | TagEnd::Image | TagEnd::HtmlBlock) => None,
        Event::Start(Tag::Heading { .. }) => {
            Some(Event::Start(Tag::Heading { level, id: None, classes: Vec::new(), attrs: Vec::new() }))
        }
        Event::End(TagEnd::Heading(_)) => Some(Event::End(TagEnd::Heading(level))),
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_grades_are_kept() {
        let page = of_markdown("### Verdict\n\n| for | grade |\n|---|--:|\n| etcd | **fail** |\n", HeadingLevel::H3);
        assert!(page.contains("<h3>Verdict</h3>") && page.contains("<strong class=\"bad\">fail</strong>"), "{page}");
        assert!(page.contains("aria-label=\"Table\"><table>") && page.contains("</table>\n</div>"), "{page}");
        assert!(page.contains("<td class=\"number\">") && !page.contains("style="), "{page}");
    }

    #[test]
    fn tags_links_and_pictures_are_text() {
        let page = of_markdown(
            "<script>alert(1)</script> [a](javascript:x) ![b](http://c) <b onclick=x>\n\n<div>\n",
            HeadingLevel::H3,
        );
        assert!(
            !page.contains("<script") && !page.contains("<a") && !page.contains("<img") && !page.contains("<b "),
            "{page}"
        );
        assert!(page.contains("&lt;script&gt;") && !page.contains("<div>"), "{page}");
    }
}
