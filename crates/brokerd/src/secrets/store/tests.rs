//! Files that are secrets and files that are not.

use super::*;
use std::os::unix::fs::{PermissionsExt, symlink};

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let private = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(folder.path(), private).unwrap();
    folder
}

fn put(folder: &Path, name: &str, content: &[u8], mode: u32) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    path
}

fn name(text: &str) -> SecretName {
    SecretName::try_from(text.to_owned()).unwrap()
}

#[test]
fn a_secret_is_its_files_line_without_the_end() {
    let folder = folder();
    for (content, expect) in [
        (&b"sk-1"[..], "sk-1"),
        (b"sk-2\n", "sk-2"),
        (b"sk-3\r\n", "sk-3"),
        (b"sk-4 \n\n", "sk-4"),
    ] {
        put(folder.path(), "key", content, 0o600);
        let secrets = Secrets::open(vec![folder.path().to_owned()], &[&name("key")]).unwrap();
        let secret = secrets.get(&name("key")).unwrap();
        assert_eq!(secret.expose(), expect);
        assert!(!format!("{secrets:?}").contains(expect), "{secrets:?}");
    }
}

#[test]
fn what_is_no_private_file_is_no_secret_and_its_value_is_in_no_error() {
    const VALUE: &str = "sk-canary-77";
    let check = |what: &str, make: &dyn Fn(&Path)| {
        let folder = folder();
        make(folder.path());
        let opened = Secrets::open(vec![folder.path().to_owned()], &[&name("key")]);
        let error = opened.expect_err(what);
        let said = format!("{error} {error:?} {}", bxkit::report::chain(&error));
        assert!(!said.contains(VALUE), "{what}: {said}");
    };
    check("missing", &|_| {});
    for mode in [0o644, 0o640, 0o604, 0o660, 0o602] {
        check(&format!("mode {mode:o}"), &|folder| {
            put(folder, "key", VALUE.as_bytes(), mode);
        });
    }
    check("a symbolic link", &|folder| {
        let file = put(folder, ".other", VALUE.as_bytes(), 0o600);
        symlink(file, folder.join("key")).unwrap();
    });
    check("a hard link", &|folder| {
        let file = put(folder, ".other", VALUE.as_bytes(), 0o600);
        std::fs::hard_link(file, folder.join("key")).unwrap();
    });
    check("a pipe", &|folder| {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, folder.join("key"), mode).unwrap();
    });
    check("a folder", &|folder| {
        std::fs::create_dir(folder.join("key")).unwrap();
    });
    check("an open folder around it", &|folder| {
        put(folder, "key", VALUE.as_bytes(), 0o600);
        let open = std::fs::Permissions::from_mode(0o770);
        std::fs::set_permissions(folder, open).unwrap();
    });
    let too_long = vec![b'k'; 64 * 1024 + 1];
    for content in [
        &b""[..],
        b"\n",
        b"two\nlines",
        b"with space",
        b"\xff\xfe",
        "schl\u{fc}ssel".as_bytes(),
        b"nul\0",
        &too_long,
    ] {
        check("a content", &|folder| {
            put(folder, "key", content, 0o600);
        });
    }
}

fn present(name: &str) -> Search {
    let name = name.to_owned();
    Search::Present { name }
}

#[test]
fn the_service_managers_folder_comes_first_and_all_are_looked_for() {
    let (first, second) = (folder(), folder());
    put(first.path(), "a", b"from-first", 0o600);
    put(second.path(), "a", b"from-second", 0o600);
    put(second.path(), "b", b"only-second", 0o600);
    put(second.path(), ".b.old~", b"with-odd-name", 0o600);
    let folders = vec![first.path().to_owned(), second.path().to_owned()];
    let secrets = Secrets::open(folders, &[&name("a")]).unwrap();
    assert_eq!(secrets.get(&name("a")).unwrap().expose(), "from-first");
    assert_eq!(secrets.get(&name("b")).unwrap().expose(), "only-second");
    for (value, expect) in [
        ("from-first", present("a")),
        ("from-second", present("a")),
        ("only-second!", present("b")),
        ("only%2dsec%6Fnd", present("b")),
        ("only%252Dsecond", present("b")),
        ("with-odd-name", present(".b.old~")),
        ("another", Search::Absent),
    ] {
        assert_eq!(secrets.search(&[b"x", value.as_bytes()]), expect, "{value}");
    }
}

/// What lies there and can't be read can't be looked for either, so nobody can tell any more.
#[test]
fn what_can_not_be_read_leaves_everything_unsure() {
    let check = |what: &str, make: &dyn Fn(&Path)| {
        let folder = folder();
        let path = folder.path().to_owned();
        put(&path, "key", b"sk-canary-77", 0o600);
        let secrets = Secrets::open(vec![path.clone()], &[&name("key")]).unwrap();
        assert_eq!(secrets.search(&[b"x"]), Search::Absent);
        make(&path);
        for secrets in [
            // What was read at the start is read again.
            secrets
                .read_again(&[&name("key")])
                .map(|()| secrets)
                .unwrap(),
            Secrets::open(vec![path.clone()], &[&name("key")]).unwrap(),
        ] {
            assert_eq!(secrets.search(&[b"x"]), Search::Unsure, "{what}");
            assert_eq!(secrets.search(&[b"sk-canary-77"]), present("key"), "{what}");
            assert_eq!(secrets.get(&name("key")).unwrap().expose(), "sk-canary-77");
        }
    };
    check("mode 0640", &|folder| {
        put(folder, "b", b"open-to-all", 0o640);
    });
    check("two lines", &|folder| {
        put(folder, "b", b"two\nlines", 0o600);
    });
    check("an odd name", &|folder| {
        put(folder, "b c.swp", b"\0\0", 0o600);
    });
    check("a link", &|folder| {
        symlink("/etc/hostname", folder.join("b")).unwrap();
    });
    check("a folder", &|folder| {
        std::fs::create_dir(folder.join("b")).unwrap();
    });
    check("too many", &|folder| {
        for number in 0..MAX_SECRETS {
            put(folder, &format!("k{number}"), b"some-value", 0o600);
        }
    });
}

#[test]
fn reading_again_takes_what_is_new_and_keeps_the_old_where_that_is_broken() {
    let folder = folder();
    let path = put(folder.path(), "a", b"old-value", 0o600);
    let needed = name("a");
    let secrets = Secrets::open(vec![folder.path().to_owned()], &[&needed]).unwrap();
    let elsewhere = secrets.clone();
    std::fs::write(&path, "new-value\n").unwrap();
    secrets.read_again(&[&needed]).unwrap();
    assert_eq!(elsewhere.get(&needed).unwrap().expose(), "new-value");
    std::fs::remove_file(&path).unwrap();
    put(folder.path(), "b", b"another-value", 0o600);
    secrets.read_again(&[&needed]).unwrap_err();
    assert_eq!(elsewhere.get(&needed).unwrap().expose(), "new-value");
    assert_eq!(elsewhere.search(&[b"new-value"]), present("a"));
    assert_eq!(elsewhere.search(&[b"another-value"]), present("b"));
    assert_eq!(elsewhere.search(&[b"x"]), Search::Absent);
    // There is something in it, and nobody knows what.
    put(folder.path(), "a", b"two\nlines", 0o600);
    secrets.read_again(&[&needed]).unwrap_err();
    assert_eq!(elsewhere.get(&needed).unwrap().expose(), "new-value");
    assert_eq!(elsewhere.search(&[b"x"]), Search::Unsure);
}

#[test]
fn a_name_is_no_path_and_is_not_repeated() {
    for bad in ["", ".", "..", ".hidden", "a/b", "a b", &"x".repeat(65)] {
        let error = SecretName::try_from(bad.to_owned()).unwrap_err();
        assert!(bad.len() < 3 || !error.contains(bad), "{error}");
    }
}
