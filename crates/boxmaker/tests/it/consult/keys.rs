//! The key of whom is asked: where it lies, who hands it over, how it is replaced, and what doctor says.

use super::{GRANT, House, SECRET};
use bxtest::provider::Answer;

/// `doctor` says whether what is configured can be used, and names what keeps it from that.
#[test]
fn doctor_tells_whether_anything_could_be_asked() {
    use std::os::unix::fs::PermissionsExt;
    let house = House::new("", |_| Answer::Close);
    let home = &house.home;
    let finding = |what: &str| {
        let doctor = home
            .cmd("boxmaker")
            .args(["doctor", "--quick", "--json"])
            .run();
        let findings = doctor.json();
        let found = findings
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["what"] == what);
        let found = found
            .cloned()
            .unwrap_or_else(|| panic!("{what}: {findings}"));
        (
            found["level"].as_str().unwrap().to_owned(),
            found.to_string(),
        )
    };
    let (level, said) = finding("consult");
    assert_eq!(level, "ok", "{said}");
    assert!(said.contains("big-1") && said.contains("private"), "{said}");
    let folder = home.state_dir().join("secrets");
    let (level, said) = finding("secrets");
    assert_eq!(level, "ok", "{said}");
    assert!(said.contains(folder.to_str().unwrap()), "{said}");

    std::fs::write(folder.join("notes"), "two\nlines").unwrap();
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(folder.join("notes"), private).unwrap();
    let (level, said) = finding("secrets");
    assert_eq!(level, "fail", "{said}");
    assert!(
        said.contains("notes") && said.contains("secret-unreadable"),
        "{said}"
    );
    assert!(!said.contains("two"), "{said}");
    std::fs::remove_file(folder.join("notes")).unwrap();

    std::fs::remove_file(folder.join("elsewhere")).unwrap();
    let (level, said) = finding("consult");
    assert_eq!(level, "fail", "{said}");
    assert!(said.contains("consult-secret-unreadable"), "{said}");
    assert!(
        said.contains(folder.join("elsewhere").to_str().unwrap()),
        "{said}"
    );
    house.put_secret(SECRET);

    let file = home.config_dir().join("brokerd.toml");
    let text = std::fs::read_to_string(&file).unwrap().replace(GRANT, "");
    std::fs::write(&file, text).unwrap();
    let (level, said) = finding("consult");
    assert_eq!(level, "warn", "{said}");
    assert!(said.contains("tool = \\\"consult\\\""), "{said}");
    assert_eq!(house.provider.connections(), 0);
    home.cmd("boxmaker").arg("down").run();
}

/// A key is replaced while the house runs: brokerd's process is where `status` has it for people and
/// for awk, and reads the new one on SIGHUP.
#[test]
fn a_key_is_replaced_while_the_house_runs() {
    let house = House::new("", |_| Answer::says("Rayleigh scattering.", 10, 2));
    let home = &house.home;
    let up = home.up();
    let status = home.cmd("boxmaker").arg("status").run().success().stdout;
    let mut rows = status.lines().map(|line| line.split_whitespace());
    let pid = rows.find_map(|mut row| (row.next() == Some("brokerd")).then(|| row.nth(1)));
    let pid: i32 = pid.flatten().unwrap().parse().unwrap();
    assert_eq!(Some(pid), home.role_pid("brokerd").map(u32::cast_signed));

    house.put_secret("sk-the-next-one");
    let brokerd = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(brokerd, rustix::process::Signal::HUP).unwrap();
    up.until("the secrets were read again", || {
        let logs = std::fs::read_dir(home.state_dir().join("logs")).unwrap();
        let mut texts = logs.map(|log| std::fs::read_to_string(log.unwrap().path()).unwrap());
        texts.any(|text| text.contains("the secrets were read again"))
    });
    assert_eq!(house.ask("chat-n")["outcome"], "completed");
    let seen = house.provider.seen().remove(0);
    let bearer = seen
        .headers()
        .into_iter()
        .find(|(name, _)| name == "authorization");
    assert_eq!(bearer.unwrap().1, "Bearer sk-the-next-one");
    assert_eq!(up.terminate().code(), Some(0));
}

/// What the service manager hands over is used before what lies in the state folder, and looked for
/// like the rest.
#[test]
fn a_key_of_the_service_managers_comes_first() {
    use std::os::unix::fs::PermissionsExt;
    let house = House::new("", |_| Answer::says("Rayleigh scattering.", 10, 2));
    let handed = house.home.path().join("credentials");
    std::fs::create_dir(&handed).unwrap();
    std::fs::set_permissions(&handed, std::fs::Permissions::from_mode(0o700)).unwrap();
    bxkit::fsx::write_atomic(&handed.join("elsewhere"), b"sk-handed-over", 0o400).unwrap();
    let up = house
        .home
        .cmd("boxmaker")
        .arg("up")
        .env("CREDENTIALS_DIRECTORY", &handed)
        .spawn();
    up.until("loopd listens", || house.home.role_pid("loopd").is_some());
    let asked = house.ask("chat-h");
    assert_eq!(asked["outcome"], "completed", "{asked}");
    let seen = house.provider.seen().remove(0);
    let bearer = seen
        .headers()
        .into_iter()
        .find(|(name, _)| name == "authorization");
    assert_eq!(bearer.unwrap().1, "Bearer sk-handed-over");
    assert_eq!(up.terminate().code(), Some(0));
}

#[test]
fn a_secret_that_others_can_read_stops_the_house_and_is_not_told() {
    use std::os::unix::fs::PermissionsExt;
    let house = House::new("", |_| Answer::Close);
    let file = house.home.state_dir().join("secrets/elsewhere");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let up = house.home.cmd("boxmaker").arg("up").run().exited(78);
    assert!(
        up.stderr.contains("error[consult-secret-unreadable]"),
        "{}",
        up.stderr
    );
    assert!(up.stderr.contains("elsewhere"), "{}", up.stderr);
    assert!(!up.stderr.contains(SECRET), "{}", up.stderr);
}
