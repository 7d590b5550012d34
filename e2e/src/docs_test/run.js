// Imports an example. Resolves to what fails, with the line in the Markdown file if it is known.
async (path) => {
  const failures = [];
  const fail = (error) => {
    const text = error?.code ? `${error.code}: ${error.message}` : String(error);
    const line = /\.md\.\d+\.js:(\d+)/.exec(error?.stack ?? "")?.[1];
    failures.push({ text, line: line && Number(line) });
  };
  addEventListener("unhandledrejection", ({ reason }) => fail(reason));
  addEventListener("error", ({ error, message }) => fail(error ?? message));
  const { error: logged } = console;
  console.error = (...values) => {
    fail(values.find((value) => value instanceof Error) ?? values.join(" "));
    logged.apply(console, values);
  };
  const timeLimit = new Promise((_, reject) => setTimeout(reject, 60_000, new Error("the example does not end")));
  await Promise.race([import(path), timeLimit]).catch(fail);
  await new Promise((resolve) => setTimeout(resolve, 300)); // for promises that are not awaited
  return failures;
}
