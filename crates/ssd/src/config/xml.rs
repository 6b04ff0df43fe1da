//! As much XML as a flat configuration file needs: elements, text, comments and a declaration.
//! Attributes, entities and CDATA are refused, not guessed at.

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

/// The elements of a document that hold text only, in order.
pub(super) fn leaves(text: &str) -> Result<Vec<Element>, XmlError> {
    let line_of = |at: usize| 1 + text.as_bytes()[..at].iter().filter(|b| **b == b'\n').count();
    let error = |at: usize, reason: String| XmlError { line: line_of(at), reason };
    let mut found = Vec::new();
    // Open elements: name, where its tag is, text so far, whether it holds elements.
    let mut open: Vec<(&str, usize, String, bool)> = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let skip =
            [("<!--", "-->"), ("<?", "?>")].iter().find(|(start, _)| rest.starts_with(start));
        if let Some((start, end)) = skip {
            let length =
                rest.find(end).ok_or_else(|| error(at, format!("`{start}` has no end")))?;
            at += length + end.len();
        } else if let Some(tag) = rest.strip_prefix('<') {
            let length = tag.find('>').ok_or_else(|| error(at, "a tag has no `>`".to_string()))?;
            let tag = tag[..length].trim();
            if let Some(name) = tag.strip_prefix('/') {
                let Some((opened, start, body, nested)) = open.pop().filter(|o| o.0 == name.trim())
                else {
                    return Err(error(at, format!("</{name}> closes nothing that is open")));
                };
                if !nested {
                    let parents = open.iter().map(|o| o.0).chain([opened]);
                    let path = parents.collect::<Vec<_>>().join("/");
                    let body = body.trim().to_string();
                    found.push(Element { path, text: body, line: line_of(start) });
                }
            } else {
                let named = |b: u8| b.is_ascii_alphanumeric() || b"_-.".contains(&b);
                if tag.is_empty() || !tag.bytes().all(named) {
                    return Err(error(at, format!("<{tag}>: expected a plain element name")));
                }
                if let Some(parent) = open.last_mut() {
                    parent.3 = true;
                }
                open.push((tag, at, String::new(), false));
            }
            at += length + 2;
        } else {
            let length = rest.find('<').unwrap_or(rest.len());
            let body = &rest[..length];
            match open.last_mut() {
                Some(_) if body.contains('&') => {
                    return Err(error(at, "entities such as `&amp;` are not read".to_string()));
                }
                Some(element) => element.2.push_str(body),
                // A byte-order mark may stand before the declaration.
                None if body.trim_start_matches('\u{feff}').trim().is_empty() => {}
                None => return Err(error(at, "text outside of any element".to_string())),
            }
            at += length;
        }
    }
    match open.last() {
        Some((name, start, ..)) => Err(error(*start, format!("<{name}> is never closed"))),
        None => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_have_their_path_text_and_line() {
        let text = "\u{feff}<?xml version=\"1.0\"?>\n<a>\n <!-- <x>no</x> -->\n <b>\n  <c> 1 </c><d></d></b></a>\n";
        let found = leaves(text).unwrap();
        let flat: Vec<_> =
            found.iter().map(|e| (e.path.as_str(), e.text.as_str(), e.line)).collect();
        assert_eq!(flat, [("a/b/c", "1", 5), ("a/b/d", "", 5)]);
        assert_eq!(found[0].name(), "c");
    }

    #[test]
    fn what_is_broken_names_its_line() {
        for (text, line) in [
            ("<a>\n<b></a>", 2),
            ("<a>\n<b>", 2),
            ("<a\n", 1),
            ("\n<!-- x", 2),
            ("x", 1),
            ("<a k=\"v\"></a>", 1),
            ("<a>\n&lt;</a>", 1),
            ("</a>", 1),
            ("<a/>", 1),
        ] {
            assert_eq!(leaves(text).expect_err(text).line, line, "{text}");
        }
    }
}
