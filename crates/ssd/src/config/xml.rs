//! The elements of an XML file that hold text: what a configuration file consists of.

use roxmltree::{Document, Node};

/// An element that holds text and no other element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Element {
    /// Names from the root down, separated by `/`.
    pub path: String,
    /// Its text, trimmed.
    pub text: String,
    /// Line of its start tag, from 1.
    pub line: usize,
}

impl Element {
    /// The last name of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct XmlError {
    pub line: usize,
    pub reason: String,
}

/// The elements of a document that hold text only, in order. Attributes are refused: none is known,
/// and one that is passed over may have meant something.
pub(super) fn leaves(text: &str) -> Result<Vec<Element>, XmlError> {
    let document = Document::parse(text)
        .map_err(|error| XmlError { line: error.pos().row as usize, reason: error.to_string() })?;
    let line = |node: Node<'_, '_>| document.text_pos_at(node.range().start).row as usize;
    let mut found = Vec::new();
    for node in document.descendants().filter(Node::is_element) {
        if let Some(attribute) = node.attributes().next() {
            let reason = format!("attribute `{}`: expected none", attribute.name());
            return Err(XmlError { line: line(node), reason });
        }
        if node.children().any(|child| child.is_element()) {
            continue;
        }
        let mut names: Vec<&str> =
            node.ancestors().filter(Node::is_element).map(|n| n.tag_name().name()).collect();
        names.reverse();
        let text: String =
            node.children().filter(Node::is_text).filter_map(|child| child.text()).collect();
        let text = text.trim().to_string();
        found.push(Element { path: names.join("/"), text, line: line(node) });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_have_their_path_text_and_line() {
        let text = "\u{feff}<?xml version=\"1.0\"?>\n<a>\n <!-- <x>no</x> -->\n <b>\n  <c> 1 </c><d></d>\n<e/><f>&lt;</f></b></a>\n";
        let found = leaves(text).unwrap();
        let flat: Vec<_> =
            found.iter().map(|e| (e.path.as_str(), e.text.as_str(), e.line)).collect();
        assert_eq!(
            flat,
            [("a/b/c", "1", 5), ("a/b/d", "", 5), ("a/b/e", "", 6), ("a/b/f", "<", 6)]
        );
        assert_eq!(found[0].name(), "c");
    }

    #[test]
    fn what_is_broken_names_its_line() {
        for (text, line) in [
            ("<a>\n<b></a>", 2),
            ("x", 1),
            ("<a>\n<b k=\"v\"></b></a>", 2),
            ("<a>\n&unknown;</a>", 2),
            ("</a>", 1),
        ] {
            assert_eq!(leaves(text).expect_err(text).line, line, "{text}");
        }
        assert!(leaves("<a>\n<b>").is_err(), "nothing is closed");
    }
}
