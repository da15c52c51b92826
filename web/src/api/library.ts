import { queryOptions } from "@tanstack/react-query";
import { all, api, got, type Schemas } from "./client";

export type TemplateItem = Schemas["TemplateItem"];

/** Most templates that are drawn. Ids are hashes: the first ones are a fair sample of a larger library. */
export const MOST_TEMPLATES = 2_000;

export const libraries = () =>
  queryOptions({ queryKey: ["libraries"], queryFn: () => got(api.GET("/api/v1/libraries")), staleTime: 60_000 });

export const templates = (version: string, workClass: string) =>
  queryOptions({
    queryKey: ["templates", version, workClass],
    queryFn: () =>
      all(
        (cursor) =>
          got(
            api.GET("/api/v1/libraries/{version}/templates", {
              params: { path: { version }, query: { work_class: workClass, limit: 200, cursor } },
            }),
          ),
        MOST_TEMPLATES,
      ),
    enabled: version !== "" && workClass !== "",
    staleTime: 300_000,
  });

export const template = (id: string) =>
  queryOptions({
    queryKey: ["templates", "one", id],
    queryFn: () => got(api.GET("/api/v1/templates/{template}", { params: { path: { template: id } } })),
    staleTime: Number.POSITIVE_INFINITY, // its id is a hash of what it is
  });
