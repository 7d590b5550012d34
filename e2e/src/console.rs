//! The console of a page, as the events of the DevTools protocol report it.

use serde_json::Value;

/// A line of the console.
pub struct Line {
    pub text: String,
    /// Whether it is an error or a warning.
    pub is_problem: bool,
}

/// The line that an event adds.
pub fn line_of(method: &str, params: &Value) -> Option<Line> {
    let text = |place| params.pointer(place).and_then(Value::as_str).unwrap_or_default();
    match method {
        "Runtime.exceptionThrown" => {
            let text = exception(params.get("exceptionDetails").unwrap_or_default());
            Some(Line { text, is_problem: true })
        }
        "Runtime.consoleAPICalled" => {
            let args = params.get("args").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let words = args.iter().filter_map(|arg| arg.get("description").or(arg.get("value")));
            let words: Vec<_> = words.map(|word| word.as_str().map_or(word.to_string(), str::to_owned)).collect();
            let is_problem = matches!(text("/type"), "error" | "warning" | "assert");
            Some(Line { text: words.join(" "), is_problem })
        }
        "Log.entryAdded" => {
            let is_problem = matches!(text("/entry/level"), "error" | "warning");
            Some(Line { text: format!("{} {}", text("/entry/text"), text("/entry/url")), is_problem })
        }
        _ => None,
    }
}

/// The description of a thrown value.
pub fn exception(details: &Value) -> String {
    let description = details.pointer("/exception/description").or(details.pointer("/exception/value"));
    let text = description.or(details.get("text")).unwrap_or(details);
    text.as_str().map_or(text.to_string(), str::to_owned)
}
