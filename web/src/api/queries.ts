import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { all, api, got, type Schemas } from "./client";

/* What pages read. The first word of a key is what live events name (live.ts). */

const SLOW_MS = 60_000;
const STEADY_MS = 15_000;

export const fleets = () =>
  queryOptions({
    queryKey: ["fleets"],
    queryFn: () => all((cursor) => got(api.GET("/api/v1/fleets", { params: { query: { limit: 200, cursor } } }))),
    refetchInterval: SLOW_MS,
  });

export const status = () =>
  queryOptions({
    queryKey: ["status"],
    queryFn: () => got(api.GET("/api/v1/status")),
    refetchInterval: STEADY_MS,
  });

export const alerts = (every = false) =>
  queryOptions({
    queryKey: ["alerts", { every }],
    queryFn: () => got(api.GET("/api/v1/alerts", { params: { query: { limit: 100, all: every } } })),
    refetchInterval: STEADY_MS,
  });

/** `isWhole`: false while the rest of a long list is on its way, and nothing was there before. */
export type InstanceList = { items: Schemas["InstanceView"][]; isWhole: boolean };

export const instances = () =>
  queryOptions({
    queryKey: ["instances", "list"],
    queryFn: async ({ client, queryKey }): Promise<InstanceList> => {
      const page = (cursor: string | undefined) => got(api.GET("/api/v1/instances", { params: { query: { limit: 200, cursor } } }));
      const onPart = (items: InstanceList["items"]) =>
        client.setQueryData(queryKey, (before: InstanceList | undefined) => (before?.isWhole ? before : { items, isWhole: false }));
      return { items: await all(page, undefined, onPart), isWhole: true };
    },
    refetchInterval: SLOW_MS,
  });

export const instance = (id: string) =>
  queryOptions({
    queryKey: ["instances", "one", id],
    queryFn: () => got(api.GET("/api/v1/instances/{instance}", { params: { path: { instance: id } } })),
  });

export const instanceHistory = (id: string) =>
  queryOptions({
    queryKey: ["instances", "history", id],
    queryFn: () => got(api.GET("/api/v1/instances/{instance}/history", { params: { path: { instance: id } } })),
  });

export const instanceLinks = (id: string) =>
  queryOptions({
    queryKey: ["instances", "links", id],
    queryFn: () => got(api.GET("/api/v1/instances/{instance}/links", { params: { path: { instance: id } } })),
    refetchInterval: SLOW_MS,
  });

export const instanceLogs = (id: string) =>
  queryOptions({
    queryKey: ["instances", "logs", id],
    queryFn: () => got(api.GET("/api/v1/instances/{instance}/logs", { params: { path: { instance: id } } })),
    refetchInterval: 5_000,
  });

export const foundInLogs = (id: string, text: string) =>
  queryOptions({
    queryKey: ["instances", "found", id, text],
    queryFn: () => got(api.GET("/api/v1/instances/{instance}/logs:find", { params: { path: { instance: id }, query: { text, limit: 200 } } })),
    placeholderData: keepPreviousData,
    refetchInterval: 10_000,
  });

export const plans = (fleet?: string, limit = 25) =>
  queryOptions({
    queryKey: ["plans", "list", fleet ?? null, limit],
    queryFn: () => got(api.GET("/api/v1/plans", { params: { query: { limit, fleet } } })),
    placeholderData: keepPreviousData,
    refetchInterval: STEADY_MS,
  });

export const plan = (id: string) =>
  queryOptions({
    queryKey: ["plans", "one", id],
    queryFn: () => got(api.GET("/api/v1/plans/{plan}", { params: { path: { plan: id } } })),
    staleTime: Number.POSITIVE_INFINITY, // a plan never changes
    enabled: id !== "",
  });

export const planDiff = (id: string) =>
  queryOptions({
    queryKey: ["diff", id],
    queryFn: () => got(api.GET("/api/v1/plans/{plan}/diff", { params: { path: { plan: id } } })),
    enabled: id !== "",
    refetchInterval: STEADY_MS,
  });

export const costSeries = (points: number, since: string, fleet?: string) =>
  queryOptions({
    queryKey: ["cost", "series", points, since, fleet ?? null],
    queryFn: () => got(api.GET("/api/v1/cost/series", { params: { query: { points, since, fleet } } })),
    placeholderData: keepPreviousData,
    refetchInterval: SLOW_MS,
  });

export const slo = (fleet: string, points = 60, since?: string) =>
  queryOptions({
    queryKey: ["slo", fleet, points, since ?? null],
    queryFn: () => got(api.GET("/api/v1/fleets/{fleet}/slo", { params: { path: { fleet }, query: { points, since } } })),
    refetchInterval: SLOW_MS,
  });

export const demand = (fleet: string, hours = 24) =>
  queryOptions({
    queryKey: ["demand", fleet, hours],
    queryFn: () => got(api.GET("/api/v1/fleets/{fleet}/demand", { params: { path: { fleet }, query: { hours } } })),
    refetchInterval: SLOW_MS,
  });

export const budgets = () =>
  queryOptions({
    queryKey: ["budgets"],
    queryFn: () => got(api.GET("/api/v1/budgets")),
    refetchInterval: SLOW_MS,
  });

export const explanation = (id: string) =>
  queryOptions({
    queryKey: ["explanations", id],
    queryFn: () => got(api.GET("/api/v1/plans/{plan}/explanation", { params: { path: { plan: id } } })),
    staleTime: 60_000,
  });

export const planObjectives = (id: string) =>
  queryOptions({
    queryKey: ["objectives", id],
    queryFn: () => got(api.GET("/api/v1/plans/{plan}/objectives", { params: { path: { plan: id } } })),
    staleTime: 60_000,
  });
