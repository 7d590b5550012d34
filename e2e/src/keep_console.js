// Keeps what the page writes to its console from now on, for a driver that does not.
globalThis.keptConsole ??= ["error", "warn", "info", "log", "debug"].reduce((lines, level) => {
  const write = console[level].bind(console);
  console[level] = (...values) => {
    lines.push(`${level}: ${values.map(String).join(" ")}`);
    write(...values);
  };
  return lines;
}, []);
