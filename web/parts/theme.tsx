// Light, dark, or as the system says; remembered on this device.

import { useEffect, useState } from "react";

const themes = ["system", "light", "dark"] as const;
type Theme = (typeof themes)[number];

const storageKey = "dcnr-theme";
const marks: Readonly<Record<Theme, string>> = { system: "◐", light: "☀", dark: "☾" };

export function applyStoredTheme(): void {
  apply(stored());
}

function stored(): Theme {
  try {
    const value = localStorage.getItem(storageKey);
    return themes.find((theme) => theme === value) ?? "system";
  } catch {
    return "system";
  }
}

function apply(theme: Theme): void {
  if (theme === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
  dispatchEvent(new Event("themechange"));
}

export function ThemeButton() {
  const [theme, setTheme] = useState<Theme>(stored);
  const turn = () => {
    const next = themes[(themes.indexOf(theme) + 1) % themes.length] as Theme;
    setTheme(next);
    apply(next);
    try {
      localStorage.setItem(storageKey, next);
    } catch {
      // Private windows keep nothing; the choice lasts as long as the page.
    }
  };
  return (
    <button
      type="button"
      className="quiet round"
      onClick={turn}
      aria-label={`Theme: ${theme}. Change`}
      title={`Theme: ${theme}`}
    >
      <span aria-hidden="true">{marks[theme]}</span>
    </button>
  );
}

/** Counts theme changes: what is drawn on a canvas must be drawn again. */
export function useThemeVersion(): number {
  const [version, setVersion] = useState(0);
  useEffect(() => {
    const changed = () => setVersion((value) => value + 1);
    const system = matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", changed);
    addEventListener("themechange", changed);
    return () => {
      system.removeEventListener("change", changed);
      removeEventListener("themechange", changed);
    };
  }, []);
  return version;
}

/** A custom property as a colour that a canvas understands. */
export function colourOfProperty(name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
