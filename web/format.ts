// Numbers as people read them: short, aligned, with their unit.

export function count(value: number): string {
  return Math.round(value).toLocaleString("en");
}

export function short(value: number): string {
  const units = ["", "k", "M", "G", "T"];
  let scaled = value;
  let unit = 0;
  while (Math.abs(scaled) >= 999.5 && unit < units.length - 1) {
    scaled /= 1000;
    unit += 1;
  }
  return `${scaled >= 100 || unit === 0 ? Math.round(scaled) : scaled.toFixed(1)}${units[unit]}`;
}

export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let scaled = value;
  let unit = 0;
  while (scaled >= 1000 && unit < units.length - 1) {
    scaled /= 1024;
    unit += 1;
  }
  return `${scaled >= 10 || unit === 0 ? Math.round(scaled) : scaled.toFixed(1)} ${units[unit]}`;
}

export function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

export function milliseconds(ms: number): string {
  return ms >= 10_000 ? `${Math.round(ms / 1000)} s` : ms >= 10 ? `${Math.round(ms)} ms` : `${ms.toFixed(1)} ms`;
}

export function rate(perSecond: number): string {
  return perSecond >= 10 ? short(perSecond) : perSecond.toFixed(1);
}

export function loss(value: number): string {
  return value === 0 ? "–" : value >= 1000 || value < 0.001 ? value.toExponential(2) : value.toPrecision(3);
}

/** "42 s", "3 min", "2 h 5 min", "3 d" */
export function duration(seconds: number): string {
  if (seconds < 60) return `${Math.max(0, Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} min`;
  return `${Math.round(hours / 24)} d`;
}

export function clock(wallMs: number): string {
  return new Date(wallMs).toLocaleTimeString("en", { hour12: false });
}

/** "17 Nov 10:42": a year only where it is another one. */
export function date(wallMs: number): string {
  const then = new Date(wallMs);
  const year = then.getFullYear() === new Date().getFullYear() ? {} : { year: "numeric" as const };
  return then.toLocaleString("en-GB", { ...year, day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
}

export function plural(amount: number, noun: string): string {
  return `${count(amount)} ${noun}${amount === 1 ? "" : "s"}`;
}

/** As a sentence begins. */
export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
