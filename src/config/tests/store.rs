//! `[store]`, `[store.copy]` and encryption.

use super::*;

#[test]
fn what_only_some_s3_servers_need() {
    let options = |rest: &str| {
        let text = format!("[store]\nurl = \"s3://backups\"\n{rest}");
        load_one(&text).map(|loaded| loaded.settings.store.unwrap().options)
    };
    assert_eq!(options("").unwrap(), S3Options::default());
    for (rest, sse) in [
        ("sse = \"AES256\"", Sse::S3),
        ("sse = \"aws:kms\"", Sse::Kms { key: None }),
        (
            "sse = \"aws:kms\"\nsse_kms_key = \"k\"",
            Sse::Kms {
                key: Some("k".to_owned()),
            },
        ),
        (
            "sse = \"customer\"\nsse_key_file = \"/k\"",
            Sse::Customer {
                key_file: "/k".into(),
            },
        ),
    ] {
        assert_eq!(options(rest).unwrap().sse, sse, "{rest}");
    }
    for (rest, proxy) in [
        ("proxy = \"none\"", Proxy::Off),
        (
            "proxy = \"http://p:3128\"",
            Proxy::Url("http://p:3128".to_owned()),
        ),
    ] {
        assert_eq!(options(rest).unwrap().proxy, proxy, "{rest}");
    }
    for (rest, why) in [
        ("sse = \"aes\"", "expected \"AES256\""),
        ("sse = \"customer\"", "needs store.sse_key_file"),
        ("sse_key_file = \"/k\"", "belongs to store.sse = \"customer\""),
        (
            "sse = \"AES256\"\nsse_kms_key = \"k\"",
            "belongs to store.sse = \"aws:kms\"",
        ),
        ("proxy = \"http://user:very-secret@p\"", "expected a proxy's URL"),
    ] {
        let error = options(rest).expect_err(rest);
        assert!(error.contains(why), "{rest}: {error}");
        assert!(!error.contains("very-secret"), "{error}");
    }
}

#[test]
fn a_second_store() {
    let load = |rest: &str| load_one(&format!("[store]\nurl = \"s3://backups\"\n{rest}")).map(|l| l.settings);
    let copy = load("[store.copy]\nurl = \"file:///copies\"\n")
        .unwrap()
        .store_copy;
    assert_eq!(copy.unwrap().url, StoreUrl::Directory("/copies".into()));
    assert_eq!(load("").unwrap().store_copy, None);
    for (rest, why) in [
        ("[store.copy]\nurl = \"s3://backups\"\n", "is the store itself"),
        ("[store.copy]\nregion = \"eu\"\n", "store.copy.url: is missing"),
        (
            "[store.copy]\nurl = \"file:///c\"\nregion = \"eu\"\n",
            "store.copy.url is a directory",
        ),
    ] {
        let error = load(rest).expect_err(rest);
        assert!(error.contains(why), "{rest}: {error}");
    }
}

#[test]
fn encryption_of_backups() {
    let key = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";
    let load = |rest: &str| load_one(&format!("[store]\nurl = \"s3://backups\"\n{rest}")).map(|l| l.settings);
    let both = format!("[backup]\nencrypt_to = [\"{key}\"]\n[restore]\nidentity_file = \"/i\"\n");
    let settings = load(&both).unwrap();
    assert_eq!(settings.encryption.recipients, [key]);
    assert_eq!(settings.encryption.identity_file, Some("/i".into()));
    assert_eq!(load("").unwrap().encryption, Encryption::default());
    // A node that cannot decrypt backups does not verify them by default.
    let sealed = format!("[backup]\nencrypt_to = [\"{key}\"]\n");
    let interval = |rest: &str| load(rest).unwrap().spec.backup.verify_interval;
    assert_eq!(interval(&sealed), None);
    assert_eq!(interval(&both), Some(Duration::from_hours(24)));
    assert_eq!(interval(""), Some(Duration::from_hours(24)));
    let unverified = format!("[backup]\nencrypt_to = [\"{key}\"]\nverify_interval = \"1d\"\n");
    for (rest, why) in [
        ("[backup]\nencrypt_to = []\n", "found an empty list"),
        (
            "[backup]\nencrypt_to = \"age1x\"\n",
            "expected a list of age recipients",
        ),
        ("[backup]\nencrypt_to = [\"age1x\"]\n", "is no recipient"),
        (
            "[backup]\nencrypt_to = [\"AGE-SECRET-KEY-1VERYSECRET\"]\n",
            "found a secret key",
        ),
        (
            "[backup]\nencrypt_to = [3]\n",
            "expected a list of age recipients",
        ),
        (&unverified, "needs restore.identity_file"),
    ] {
        let error = load(rest).expect_err(rest);
        assert!(error.contains(why), "{rest}: {error}");
        assert!(!error.contains("VERYSECRET"), "{error}");
    }
}

#[test]
fn a_calendar_in_place_of_an_interval() {
    let load = |rest: &str| load_one(&format!("[store]\nurl = \"s3://backups\"\n{rest}")).map(|l| l.settings);
    let calendar = |rest: &str| load(rest).unwrap().spec.backup.on_calendar;
    assert_eq!(calendar(""), None);
    let daily = "[backup]\non_calendar = \"Mon..Fri 02:00\"\n";
    assert_eq!(calendar(daily), Some("Mon..Fri 02:00".parse().unwrap()));
    let both = format!("{daily}interval = \"1h\"\n");
    for (rest, why) in [
        (
            both.as_str(),
            "backup.on_calendar: cannot be set together with backup.interval",
        ),
        (
            "[backup]\non_calendar = 3\n",
            "expected a calendar event of systemd",
        ),
        (
            "[backup]\non_calendar = \"02:61\"\n",
            "\"61\" is no minute: expected *, or 0 to 59",
        ),
        ("[backup]\non_calendar = \"02:00 Europe/Berlin\"\n", "all are UTC"),
    ] {
        let error = load(rest).expect_err(rest);
        assert!(error.contains(why), "{rest}: {error}");
    }
}

#[test]
fn how_fast_a_store_may_be_written_to() {
    let load = |rest: &str| load_one(&format!("[store]\nurl = \"s3://backups\"\n{rest}"));
    let bandwidth = |rest: &str| load(rest).unwrap().settings.store.unwrap().options.bandwidth;
    assert_eq!(bandwidth(""), None);
    assert_eq!(bandwidth("bandwidth = \"20MiB\"\n"), Some(20 << 20));
    assert_eq!(bandwidth("bandwidth = \"512 KiB\"\n"), Some(512 << 10));
    for value in ["\"20\"", "\"20MB\"", "\"1KiB\"", "20", "\"99999999999999GiB\""] {
        let rest = format!("bandwidth = {value}\n");
        let error = load(&rest).map(drop).expect_err(value);
        assert!(
            error.contains("expected a number of bytes with its unit"),
            "{value}: {error}"
        );
    }
    let local = load_one("[store]\nurl = \"file:///b\"\nbandwidth = \"1MiB\"\n");
    assert!(local.map(drop).unwrap_err().contains("is for s3:// only"));
}
