import { LayoutDashboard, type LucideIcon } from "lucide-react";
import type { ComponentType } from "react";

export type PageEntry = {
  /** As React Router matches it; what follows a `:` is optional. */
  path: string;
  name: string;
  group: "Run" | "Decide" | "Account";
  icon: LucideIcon;
  load: () => Promise<{ default: ComponentType }>;
};

/** Every page: the navigation, the routes and the command palette are made from this. */
export const PAGES: readonly PageEntry[] = [
  { path: "/", name: "Overview", group: "Run", icon: LayoutDashboard, load: () => import("@/pages/overview/Overview") },
];

/** Where a page begins, without what its address may name. */
export function hrefOf(entry: PageEntry): string {
  return entry.path.split("/:")[0] || "/";
}
