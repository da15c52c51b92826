import type { LucideIcon } from "lucide-react";
import { type ComponentType, createContext, useContext } from "react";

export type PageEntry = {
  /** Path that React Router matches; what follows a `:` is optional. */
  path: string;
  name: string;
  group: "Run" | "Decide" | "Account";
  icon: LucideIcon;
  load: () => Promise<{ default: ComponentType }>;
};

/** Address where a page begins, without what its address may name. */
export function hrefOf(entry: PageEntry): string {
  return entry.path.split("/:")[0] || "/";
}

type Shell = { live: boolean; search: () => void; pages: readonly PageEntry[] };

/** What pages know of the shell around them, which loads them: it knows the pages, and no page imports it. */
export const ShellContext = createContext<Shell>({ live: false, search: () => {}, pages: [] });

export const useShell = () => useContext(ShellContext);
