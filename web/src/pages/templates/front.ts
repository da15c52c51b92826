import type { TemplateItem } from "@/api/library";

/** Those that nothing beats: no other sustains as much for less, or more for as much. By price, the cheapest first. */
export function front(items: readonly TemplateItem[]): TemplateItem[] {
  const ordered = items
    .filter((item) => item.usd_per_hour != null)
    .sort((a, b) => (a.usd_per_hour ?? 0) - (b.usd_per_hour ?? 0) || b.units_per_s - a.units_per_s);
  const kept: TemplateItem[] = [];
  for (const item of ordered) {
    if (item.units_per_s > (kept.at(-1)?.units_per_s ?? 0)) kept.push(item);
  }
  return kept;
}

/** True where it joins several node configurations. */
export function isMixed(item: TemplateItem): boolean {
  return Object.keys(item.nodes).length > 1;
}
