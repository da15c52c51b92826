import { queryOptions } from "@tanstack/react-query";
import { api, got, type Schemas } from "./client";

export type PlannedApp = Schemas["PlannedApp"];

export const apps = () =>
  queryOptions({ queryKey: ["apps", "list"], queryFn: () => got(api.GET("/api/v1/apps")), refetchInterval: 60_000 });

export const servedApp = (fleet: string, app: string) =>
  queryOptions({
    queryKey: ["apps", "one", fleet, app],
    queryFn: () => got(api.GET("/api/v1/fleets/{fleet}/apps/{app}", { params: { path: { fleet, app } } })),
    enabled: fleet !== "" && app !== "",
    refetchInterval: 15_000,
  });
