import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, got, type Schemas } from "./client";
import { type Range, spanOf } from "./range";

export type Series = Schemas["Series"];
export type SeriesOf = { fleet?: string; model?: string; zone?: string; instance?: string };

const EVERY_MS = 60_000;
const POINTS = 120;

/** Of a range up to now, that is asked for again every minute; one that is over is asked for once. */
export const series = (range: Range, of: SeriesOf) =>
  queryOptions({
    queryKey: ["series", range, of],
    queryFn: () => got(api.GET("/api/v1/series", { params: { query: { ...spanOf(range), ...of, points: POINTS } } })),
    placeholderData: keepPreviousData,
    refetchInterval: "hours" in range ? EVERY_MS : false,
  });
