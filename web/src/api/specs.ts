import { queryOptions } from "@tanstack/react-query";
import { all, api, got, type Schemas, whole } from "./client";

export type Checked = Schemas["CheckedSpec"];
export type Mode = Schemas["FleetMode"];
/** A spec file as it is stored, and the ETag that it is changed by. */
export type Source = Schemas["FleetSource"] & { etag: string };

export const source = (fleet: string) =>
  queryOptions({
    queryKey: ["fleets", "source", fleet],
    queryFn: async (): Promise<Source> => {
      const found = await whole(api.GET("/api/v1/fleets/{fleet}/source", { params: { path: { fleet } } }));
      return { ...(found.data as Schemas["FleetSource"]), etag: found.response.headers.get("etag") ?? "" };
    },
    staleTime: 0,
    refetchOnWindowFocus: false, // somebody may be typing
  });

export const starter = (asked: { name: string; model?: string; cloud?: string; requests_per_s?: number }) =>
  queryOptions({
    queryKey: ["starter", asked],
    queryFn: () => got(api.GET("/api/v1/specs/starter", { params: { query: asked } })),
    staleTime: Number.POSITIVE_INFINITY,
  });

export const check = (text: string) =>
  queryOptions({
    queryKey: ["spec-check", text],
    queryFn: () => got(api.POST("/api/v1/specs:check", { body: { source: text } })),
    staleTime: 30_000,
    gcTime: 60_000,
    enabled: text.trim() !== "",
  });

export const models = () =>
  queryOptions({
    queryKey: ["models"],
    queryFn: () => all((cursor) => got(api.GET("/api/v1/models", { params: { query: { limit: 200, cursor } } }))),
    staleTime: 60_000,
  });
