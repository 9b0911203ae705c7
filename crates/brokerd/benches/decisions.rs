//! How many decisions a second, and how long a call takes with everything on record.

#![allow(clippy::unwrap_used, reason = "a bench stops where it fails")]

use brokerd::audit::{Boot, Log, Record, Synced};
use brokerd::broker::{Broker, open};
use brokerd::decision::{Arguments, Facts, Question, Schema, decide};
use brokerd::tools::Registry;
use bxcore::audit::Kind;
use bxcore::grant::Grant;
use bxcore::guardrails::ToolRules;
use bxcore::id::{CallId, SessionId};
use bxcore::label::Label;
use bxcore::tool::{Repeat, RiskTag, ToolName, ToolSpec};
use bxcore::wire::brokerd::{CallRequest, Register};
use bxkit::home::Home;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use jiff::Timestamp;
use std::collections::BTreeSet;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio_util::sync::CancellationToken;

/// How many sessions call at once in the crowded bench.
const SESSIONS_AT_ONCE: u64 = 256;

fn walks(criterion: &mut Criterion) {
    let name = ToolName::new("shell").unwrap();
    let parameters = serde_json::json!({
        "type": "object",
        "properties": {"command": {"type": "string"}},
        "required": ["command"],
        "additionalProperties": false
    });
    let schema = Schema::new(&parameters).unwrap();
    let spec = ToolSpec {
        name: name.clone(),
        description: String::new(),
        parameters,
        tags: BTreeSet::from([RiskTag::Exec]),
        repeat: Repeat::Never,
        reserve: None,
    };
    let grants: Vec<Grant> = (0..20)
        .map(|number| {
            let tool = if number == 19 {
                "shell".to_owned()
            } else {
                format!("tool_{number}")
            };
            serde_json::from_value(serde_json::json!({"tool": tool, "max_taint": "private"}))
                .unwrap()
        })
        .collect();
    let mut group = criterion.benchmark_group("decision");
    group.throughput(Throughput::Elements(1));
    group.bench_function("granted, with arguments", |bencher| {
        bencher.iter(|| {
            let arguments = Arguments::read(black_box(r#"{"command":"ls -l"}"#), &schema);
            decide(&Question {
                name: &name,
                tool: Some(&spec),
                arguments: &arguments,
                label: Label::OWNER,
                rules: &ToolRules::default(),
                grants: &grants,
                facts: &Facts::default(),
            })
        });
    });
    group.finish();
}

struct Served {
    broker: Broker,
    next: AtomicU64,
    _folder: tempfile::TempDir,
}

impl Served {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path());
        home.create().unwrap();
        let tools = Registry::new().unwrap();
        let boot = Boot("bench".to_owned());
        let config = "[[grant]]\ntool = \"write_file\"\nmax_taint = \"private\"\n";
        let file = home.config_dir().join("brokerd.toml");
        std::fs::write(&file, config).unwrap();
        let loaded = brokerd::config::load(&home, &file, &tools.specs()).unwrap();
        let opened = open(&home, loaded, tools, boot, Timestamp::now).unwrap();
        let (broker, _) = Broker::start(opened, CancellationToken::new(), |_| {});
        let register = Register {
            raise: Label::OWNER,
            parent: None,
            rules: ToolRules::default(),
        };
        for number in 0..SESSIONS_AT_ONCE {
            broker.register(id(number), register.clone()).await.unwrap();
            let own = home
                .state_dir()
                .join("workspaces")
                .join(id(number).as_str());
            std::fs::create_dir_all(&own).unwrap();
            std::fs::write(own.join("a.txt"), "hello\n").unwrap();
        }
        Self {
            broker,
            next: AtomicU64::new(1),
            _folder: folder,
        }
    }

    async fn call(&self, session: u64, tool: &str, arguments: &str) {
        let request = CallRequest {
            session: id(session),
            call: CallId(self.next.fetch_add(1, Ordering::Relaxed)),
            tool: ToolName::new(tool).unwrap(),
            arguments: arguments.to_owned(),
            label: Label::OWNER,
            result_bytes: 8192,
            resumed: false,
            reserved: None,
        };
        black_box(self.broker.call(request).await.unwrap());
    }
}

fn id(number: u64) -> SessionId {
    SessionId::new(format!("s-{number}")).unwrap()
}

fn calls(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let served = runtime.block_on(Served::start());
    let mut group = criterion.benchmark_group("call");
    group.throughput(Throughput::Elements(1));
    for (kind, tool, arguments) in [
        ("read_file", "read_file", r#"{"path":"a.txt"}"#),
        ("list_dir", "list_dir", "{}"),
        ("search_files", "search_files", r#"{"pattern":"hello"}"#),
        ("denied", "shell", "{}"),
        (
            "write_file, granted",
            "write_file",
            r#"{"path":"b.txt","content":"hello","mode":"replace"}"#,
        ),
    ] {
        group.bench_function(kind, |bencher| {
            bencher
                .to_async(&runtime)
                .iter(|| served.call(0, tool, arguments));
        });
    }
    group.throughput(Throughput::Elements(SESSIONS_AT_ONCE));
    group.sample_size(20);
    group.bench_function("256 sessions at once", |bencher| {
        bencher.to_async(&runtime).iter(|| async {
            let calls = (0..SESSIONS_AT_ONCE)
                .map(|session| served.call(session, "read_file", r#"{"path":"a.txt"}"#));
            futures_util::future::join_all(calls).await;
        });
    });
    group.finish();
}

/// How fast a log is checked, as `audit verify` and each start do.
fn verification(criterion: &mut Criterion) {
    const RECORDS: u64 = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let boot = Boot("bench".to_owned());
    let opened = Log::open(folder.path(), boot, Timestamp::now()).unwrap();
    let mut log = opened.log;
    let body = r#"{"path":"notes/a.txt"}"#.repeat(8);
    for _ in 0..RECORDS {
        let record = Record {
            session: Some("chat-1"),
            call: Some(1),
            tool: Some("read_file"),
            body: Some(&body),
            ..Record::default()
        };
        log.stage(Kind::Deny, &record, Timestamp::now()).unwrap();
    }
    log.flush(Synced::Now).unwrap();
    let segments = bxkit::audit_reader::segments(folder.path()).unwrap();
    let bytes = segments
        .iter()
        .map(|path| std::fs::metadata(path).unwrap().len());
    let mut group = criterion.benchmark_group("verify");
    group.throughput(Throughput::Bytes(bytes.sum()));
    group.sample_size(10);
    group.bench_function("a log", |bencher| {
        bencher.iter(|| bxkit::audit_reader::verify(folder.path(), None).unwrap());
    });
    group.finish();
}

criterion_group!(benches, walks, calls, verification);
criterion_main!(benches);
