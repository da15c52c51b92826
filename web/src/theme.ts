import { useSyncExternalStore } from "react";

export type Theme = "light" | "dark";
export type ThemeChoice = Theme | "system";

const STORED = "medley-theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

export function themeChoice(): ThemeChoice {
  const stored = localStorage.getItem(STORED);
  return stored === "light" || stored === "dark" ? stored : "system";
}

export function chooseTheme(choice: ThemeChoice): void {
  if (choice === "system") localStorage.removeItem(STORED);
  else localStorage.setItem(STORED, choice);
  applyTheme();
}

export function applyTheme(): void {
  document.documentElement.dataset.theme = theme();
  for (const tell of listeners) tell();
}

function theme(): Theme {
  const choice = themeChoice();
  return choice === "system" ? (system.matches ? "dark" : "light") : choice;
}

system.addEventListener("change", applyTheme);

/** The theme for what CSS variables do not reach, such as a canvas. */
export function useTheme(): Theme {
  return useSyncExternalStore(
    (tell) => {
      listeners.add(tell);
      return () => listeners.delete(tell);
    },
    theme,
  );
}
