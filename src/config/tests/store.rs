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
