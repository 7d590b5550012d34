// Makes the blocks of JavaScript that are marked `live` editable, and runs them in the page. Their output is what they
// pass to `console`, and their errors.
(() => {
  // How many elements of an array are shown.
  const SHOWN = 4;

  /** The console of each example that ran, by its number. */
  const consoles = globalThis.weightstreamConsoles = new Map();

  const blocks = document.querySelectorAll("main pre > code.language-js.live");
  blocks.forEach((code, number) => enliven(code, number));

  function enliven(code, number) {
    const block = code.parentElement;
    const original = code.textContent.trimEnd();
    const title = headingBefore(block);
    const editor = create("textarea", {
      value: original, rows: original.split("\n").length + 1, spellcheck: false, wrap: "off",
      ariaLabel: `Code: ${title}`, autocapitalize: "off",
    });
    const run = create("button", { type: "button", textContent: "Run", ariaLabel: `Run: ${title}` });
    const reset = create("button", { type: "button", textContent: "Reset", ariaLabel: `Reset: ${title}` });
    const output = create("pre", { role: "log", tabIndex: 0, ariaLabel: `Output: ${title}` });
    output.textContent = "The output appears here.";

    const start = () => runExample(number, editor.value, output);
    run.addEventListener("click", start);
    editor.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      start();
    });
    reset.addEventListener("click", () => {
      editor.value = original;
      editor.focus();
    });

    const example = create("section", { className: "live-example", ariaLabel: title });
    const buttons = create("div", { className: "live-buttons" });
    buttons.append(run, reset);
    example.append(editor, buttons, output);
    // The output of the example, which is written below its code for readers of the file on other sites.
    const written = block.closest(".buttons-wrapper, pre").nextElementSibling;
    if (written?.querySelector("code.language-text")) written.remove();
    block.replaceWith(example);
  }

  async function runExample(number, code, output) {
    output.textContent = "";
    output.dataset.state = "running";
    const print = (text, kind) => {
      const line = create("span", { className: kind, textContent: `${text}\n` });
      // A run that was started before may still print.
      if (consoles.get(number) === console) output.append(line);
    };
    const printer = (kind) => (...values) => print(values.map(shown).join(" "), kind);
    const console = { log: printer("log"), info: printer("log"), warn: printer("error"), error: printer("error") };
    consoles.set(number, console);
    // The module has no other console. Imports may follow a declaration.
    const module = `const console = weightstreamConsoles.get(${number}); ${code}`;
    const url = URL.createObjectURL(new Blob([module], { type: "text/javascript" }));
    let state = "done";
    try {
      await import(url);
    } catch (error) {
      print(error?.code ? `${error.code}: ${error.message}` : String(error), "error");
      state = "failed";
    }
    URL.revokeObjectURL(url);
    if (consoles.get(number) !== console) return;
    if (output.textContent === "") print("The example ended without output.", "log");
    output.dataset.state = state;
  }

  /** A value as text, similar to the consoles of browsers. */
  function shown(value) {
    if (typeof value === "string") return value;
    if (value instanceof Error) return `${value.code ?? value.name}: ${value.message}`;
    if (ArrayBuffer.isView(value)) return `${value.constructor.name}(${value.length}) [${start(value)}]`;
    if (Array.isArray(value)) return `[${start(value)}]`;
    if (typeof value !== "object" || value === null) return String(value);
    const fields = Object.entries(value).map(([name, field]) => `${name}: ${shown(field)}`);
    return `{ ${fields.join(", ")} }`;
  }

  function start(values) {
    const first = Array.from(values.slice(0, SHOWN), shown);
    return [...first, ...(values.length > SHOWN ? ["…"] : [])].join(", ");
  }

  function headingBefore(block) {
    for (let element = block.previousElementSibling; element; element = element.previousElementSibling) {
      if (/^H[1-6]$/.test(element.tagName)) return element.textContent.trim();
    }
    return "Example";
  }

  function create(name, properties) {
    const element = document.createElement(name);
    return Object.assign(element, properties);
  }
})();
