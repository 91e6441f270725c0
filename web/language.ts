// Some systems name a language that browsers pass on but cannot format for ("en-US@posix"); uPlot would throw on it
// while it loads. Imported before everything else.

try {
  new Intl.NumberFormat(navigator.language);
} catch {
  Object.defineProperty(navigator, "language", { value: "en" });
}
