import type { Cell } from "@/api/market";
import { brief, dollars, percent } from "@/components/figures";

export type MeasureName = "price" | "availability" | "success";

export type Measure = {
  name: string;
  title: string;
  of: (cell: Cell) => number | null;
  format: (value: number) => string;
  /** Whether little is good, as a price is. What is good has the strongest colour. */
  isLowBest?: boolean;
  /** What those read who do not see the colour. */
  none: string;
};

export const MEASURES: Record<MeasureName, Measure> = {
  price: {
    name: "Price",
    title: "Least $/h of a GPU",
    of: (cell) => cell.usd_per_gpu_hour,
    format: dollars,
    isLowBest: true,
    none: "not sold",
  },
  availability: {
    name: "Availability",
    title: "Nodes that could be had",
    of: (cell) => cell.available_count,
    format: brief,
    none: "nobody knows",
  },
  success: {
    name: "Success",
    title: "Chance that the next node is given, as learned",
    of: (cell) => cell.success_share,
    format: percent,
    none: "not asked for yet",
  },
};
