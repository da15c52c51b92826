import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, got, type Schemas } from "./client";

export type By = Schemas["By"];
export type Budget = Schemas["BudgetReport"];

export const cost = (by: By, since: string | undefined) =>
  queryOptions({
    queryKey: ["cost", "report", by, since ?? null],
    queryFn: () => got(api.GET("/api/v1/cost", { params: { query: { by, since } } })),
    placeholderData: keepPreviousData,
    refetchInterval: 60_000,
  });

export const usage = (since: string) =>
  queryOptions({
    queryKey: ["cost", "usage", since],
    queryFn: () => got(api.GET("/api/v1/cost/usage", { params: { query: { since } } })),
    placeholderData: keepPreviousData,
    refetchInterval: 60_000,
  });

/** The dearest first; a page of cheaper ones at a time. */
export const keyCosts = (since: string) =>
  infiniteQueryOptions({
    queryKey: ["cost", "keys", since],
    queryFn: ({ pageParam }) => got(api.GET("/api/v1/cost/keys", { params: { query: { since, limit: 100, cursor: pageParam } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.next ?? undefined,
    placeholderData: keepPreviousData,
    refetchInterval: 60_000,
  });

export const givenUp = (fleet: string) =>
  queryOptions({
    queryKey: ["budgets", "given-up", fleet],
    queryFn: () => got(api.GET("/api/v1/fleets/{fleet}/given-up", { params: { path: { fleet } } })),
    refetchInterval: 60_000,
  });

export const projects = () =>
  queryOptions({
    queryKey: ["projects"],
    queryFn: () => got(api.GET("/api/v1/projects", { params: { query: { limit: 200 } } })),
    staleTime: 60_000,
  });
