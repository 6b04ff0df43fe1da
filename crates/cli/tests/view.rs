//! `varve view`: the page of a run in a file and at an address, as a user has it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("varve-view-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_varve"));
        command.current_dir(&self.0).args(arguments);
        command
    }
    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("varve runs")
    }
    /// A small run, kept in the folder `name`.
    fn sim(&self, name: &str, more: &[&str]) {
        let drive = [
            "capacity=32 MiB",
            "op=12.5 %",
            "geometry.channels=2",
            "geometry.dies=2",
            "geometry.pages=64",
        ];
        let mut arguments = vec!["sim", "gen:uniform,size=32MiB,count=20k,read=30,iat=40us"];
        drive.iter().for_each(|pair| arguments.extend(["--set", pair]));
        arguments.extend(["--buffer", "1M", "--quiet", "--out", name]);
        let out = self.run(&[&arguments[..], more].concat());
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }
    /// A server of a run: its address, and the secret part of it.
    fn view(&self, name: &str) -> (Server, String, String) {
        let mut child = self.command(&["view", name]).stdout(Stdio::piped()).spawn().expect("runs");
        let mut said = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        let server = Server(child);
        out.read_line(&mut said).expect("a line");
        let url = said.trim().strip_prefix("http://").and_then(|url| url.split_once('/'));
        let (address, secret) = url.expect("an address");
        (server, address.to_string(), secret.to_string())
    }
    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).expect(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn get(address: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.to_string(), body.to_string())
}

#[test]
fn a_saved_page_is_the_report_of_the_run() {
    let folder = Folder::new("save");
    folder.sim("a", &[]);
    folder.sim("b", &["--policy", "aoi"]);
    let out = folder.run(&["view", "a", "--save", "x.html"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let (saved, report) = (folder.text("x.html"), folder.text("a/report.html"));
    assert!(saved == report, "one renderer: {} and {} bytes", saved.len(), report.len());
    // A file is as good as its folder, but does not say what repeats it.
    assert!(folder.run(&["view", "a/results.json", "--save", "y.html"]).status.success());
    assert!(
        !folder.text("y.html").contains("varve run") && report.contains("varve run a/run.toml")
    );
    let out = folder.run(&["view", "a", "b", "--save", "both.html"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let both = folder.text("both.html");
    assert!(both.contains("<h1>a and b</h1>") && both.contains("b/run.toml"));
    let differs = both.split("differs</th>").nth(1).expect("what differs in the configuration");
    assert!(differs.split("</table>").next().unwrap().contains("buffer.policy"));
}

#[test]
fn a_timeline_is_a_page_of_its_own() {
    let folder = Folder::new("timeline");
    folder.sim("a", &["--timeline", "100ms..150ms", "--timeline-out", "x.pftrace"]);
    let out = folder.run(&["view", "x.pftrace", "--save", "x.html"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let page = folder.text("x.html");
    assert!(page.contains("<h1>x.pftrace</h1>") && page.contains("channel 1 die 1"));
    assert!(page.contains("<table id=\"slowest\">") && page.contains("id=\"csv-operations\""));
    // Beside results it is linked, where somebody answers; a file stands alone.
    for name in ["a/x <1>.pftrace", "a/broken.pftrace"] {
        std::fs::copy(folder.0.join("x.pftrace"), folder.0.join(name)).expect("copied");
    }
    std::fs::write(folder.0.join("a/broken.pftrace"), "{}").expect("written");
    let (_server, address, secret) = folder.view("a");
    let (_, body) = get(&address, &format!("/{secret}"));
    let link = body.split("id=\"beside\"").nth(1).expect("a link").split("</p>").next().unwrap();
    let href =
        link.split("href=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("an address");
    assert!(link.contains("a/x &lt;1&gt;.pftrace</a>") && !link.contains("broken"), "{link}");
    let (head, timeline) = get(&address, &format!("/{secret}{href}"));
    assert!(
        head.starts_with("HTTP/1.0 200") && timeline.contains("x &lt;1&gt;.pftrace</h1>"),
        "{head}"
    );
    for path in ["timeline-0-7", "timeline-1-0", "x.pftrace", "../x.pftrace"] {
        assert!(get(&address, &format!("/{secret}{path}")).0.starts_with("HTTP/1.0 404"), "{path}");
    }
    assert!(folder.run(&["view", "a", "--save", "y.html"]).status.success());
    assert!(!folder.text("y.html").contains("id=\"beside\""));
}

#[test]
fn what_cannot_be_shown_is_said_at_once() {
    let folder = Folder::new("wrong");
    std::fs::write(folder.0.join("x.pftrace"), "{}").expect("written");
    std::fs::write(folder.0.join("x.json"), "{\"schema\": \"varve.hits/1\"}").expect("written");
    for (arguments, said) in [
        (&["view", "nothing"][..], "expected a result document"),
        (&["view", "x.json"], "expected `varve.run/"),
        (&["view", "x.json", "--save", "y.html"], "expected `varve.run/"),
        (&["view", "x.pftrace"], "x.pftrace: byte 0: "),
        (&["view", "x.json", "x.pftrace"], "expected one timeline, or runs alone"),
    ] {
        let out = folder.run(arguments);
        let error = String::from_utf8_lossy(&out.stderr);
        assert_eq!((out.status.code(), error.contains(said)), (Some(3), true), "{error}");
    }
    assert!(!folder.0.join("y.html").exists());
    folder.sim("a", &[]);
    let out = folder.run(&["view", "a", "--listen", "192.0.2.1:0"]);
    assert_eq!(out.status.code(), Some(3), "{}", String::from_utf8_lossy(&out.stderr));
    let out = folder.run(&["view", "a", "--listen", "127.0.0.1:0", "--save", "x.html"]);
    assert_eq!(out.status.code(), Some(2));
}

#[test]
fn it_answers_at_the_address_it_prints_and_at_no_other() {
    let folder = Folder::new("serve");
    folder.sim("a", &[]);
    let (_server, address, secret) = folder.view("a");
    let address = address.as_str();
    assert_eq!(secret.len(), 33, "{secret}");
    let (head, body) = get(address, &format!("/{secret}"));
    assert!(head.starts_with("HTTP/1.0 200") && head.contains("text/html"), "{head}");
    assert!(body == folder.text("a/report.html"), "the page of the file");
    for path in ["/", "/index.html", &format!("/{}", "0".repeat(32)), &format!("/{secret}x")] {
        assert!(get(address, path).0.starts_with("HTTP/1.0 404"), "{path}");
    }
    // A run that is repeated is shown as it is now; one that is gone is said to be.
    folder.sim("a", &["--seed", "7"]);
    assert!(get(address, &format!("/{secret}")).1 == folder.text("a/report.html"));
    std::fs::remove_file(folder.0.join("a/results.json")).expect("removed");
    assert!(get(address, &format!("/{secret}")).0.starts_with("HTTP/1.0 503"));
}
