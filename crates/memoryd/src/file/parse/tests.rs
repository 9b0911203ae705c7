use super::*;
use bxcore::label::Class;
use proptest::prelude::*;

const NOON: &str = "2026-12-01T12:00:00Z";

fn parsed(text: &str) -> File {
    File::parse(text, NOON.parse().unwrap())
}

fn source(file: &File) -> String {
    file.pieces.iter().map(|piece| piece.raw.as_str()).collect()
}

fn line(id: &str, label: &str) -> String {
    format!("<!-- memory id={id} time=2026-11-30T08:00:00Z by=session:chat-1 label={label} -->\n")
}

fn seen(file: &File) -> Vec<(Option<String>, Label, String)> {
    let entries = file.entries().into_iter();
    entries
        .map(|entry| (entry.id.map(String::from), entry.label, entry.text))
        .collect()
}

#[test]
fn text_without_a_marker_is_the_owners_and_gets_one() {
    let file = parsed("\n# Me\n\n  I like tea.\n\n");
    let entries = file.entries();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].text, "# Me\n\n  I like tea.");
    assert_eq!(entries[0].writer, Some(Writer::Owner));
    assert_eq!(entries[0].label, Label::OWNER);
    let written = file.render();
    let id = entries[0].id.as_ref().unwrap();
    let expect = format!(
        "\n<!-- memory id={id} time={NOON} by=owner label=private -->\n# Me\n\n  I like tea.\n<!-- /memory -->\n\n"
    );
    assert_eq!(written, expect);
    assert_eq!(parsed(&written).entries(), entries);
}

#[test]
fn entries_keep_what_their_markers_say() {
    let text = format!(
        "before\n{}one\n<!-- /memory -->\nbetween\n{}two\n<!-- /memory -->\n",
        line("a", "public,untrusted"),
        line("b", "secret"),
    );
    let file = parsed(&text);
    let labels: Vec<Label> = seen(&file).iter().map(|(_, label, _)| *label).collect();
    let expect = [
        Label::OWNER,
        Label::new(Class::Public, true),
        Label::OWNER,
        Label::new(Class::Secret, false),
    ];
    assert_eq!(labels, expect);
    assert_eq!(source(&file), text);
}

#[test]
fn what_is_torn_counts_as_the_worst_and_stays_as_it_is() {
    let good = line("a", "private");
    for text in [
        // The line before is torn in some way.
        format!("{}\nx\n<!-- /memory -->\n", &good[..30]),
        good.replace("label=private", "label=nice") + "x\n<!-- /memory -->\n",
        good.replace(" -->", "") + "x\n<!-- /memory -->\n",
        // It is gone, so that only the line behind is left.
        "x\n<!-- /memory -->\n".to_owned(),
        // The line behind is gone.
        format!("{good}x\n"),
        format!("{good}x\n<!-- /memory"),
    ] {
        let file = parsed(&text);
        assert!(
            seen(&file).iter().all(|(_, label, _)| *label == Label::TOP),
            "{text}: {:?}",
            seen(&file)
        );
        assert!(
            file.entries().iter().any(|entry| entry.text.contains('x')),
            "{text}"
        );
        assert!(file.entries().iter().all(|entry| entry.trouble.is_some()));
        assert_eq!(file.render(), text);
    }
}

#[test]
fn a_copied_entry_gets_an_id_of_its_own_and_keeps_its_label() {
    let one = format!("{}x\n<!-- /memory -->\n", line("a", "private,untrusted"));
    let file = parsed(&format!("{one}{one}{one}"));
    let entries = seen(&file);
    assert_eq!(entries.len(), 3);
    assert_eq!(entries[0].0.as_deref(), Some("a"));
    let ids: HashSet<_> = entries.iter().map(|(id, ..)| id.clone()).collect();
    assert_eq!(ids.len(), 3);
    assert!(
        entries
            .iter()
            .all(|(_, label, text)| label.untrusted && text == "x")
    );
    assert_eq!(seen(&parsed(&file.render())), entries, "the ids stay");
}

fn any_line() -> impl Strategy<Value = String> {
    let marker = line("a", "private,untrusted");
    let longest = marker.len();
    prop_oneof![
        3 => "[a-z #<>!-]{0,12}",
        2 => Just(marker.trim_end().to_owned()),
        2 => Just("<!-- /memory -->".to_owned()),
        1 => (0..longest).prop_map(move |cut| marker[..cut].to_owned()),
        1 => Just(line("b", "public").trim_end().to_owned()),
        1 => Just(String::new()),
    ]
}

proptest! {
    #[test]
    fn no_edit_by_hand_loses_a_byte(lines in prop::collection::vec(any_line(), 0..20), ends in any::<bool>()) {
        let mut text = lines.join("\n");
        if ends { text.push('\n'); }
        let file = parsed(&text);
        prop_assert_eq!(source(&file), text.clone());
        // What is written says the same again, with every label and every word.
        let again = parsed(&file.render());
        prop_assert_eq!(seen(&again), seen(&file));
        prop_assert_eq!(again.render(), file.render());
        let written = file.render();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            prop_assert!(written.contains(line.trim()), "{} is lost", line);
        }
        let ids: Vec<_> = file.entries().into_iter().filter_map(|entry| entry.id).collect();
        prop_assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
    }

    #[test]
    fn any_text_at_all_is_read(text in "\\PC*|(\\PC|\n|\r|\u{0}|<!--|memory|-->){0,60}") {
        prop_assert_eq!(source(&parsed(&text)), text);
    }
}
