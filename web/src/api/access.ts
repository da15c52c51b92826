import { queryOptions } from "@tanstack/react-query";
import { all, api, got, type Schemas } from "./client";

export type Token = Schemas["Token"];
export type NewToken = Schemas["NewToken"];

export const tokens = () =>
  queryOptions({
    queryKey: ["tokens"],
    queryFn: () => all((cursor) => got(api.GET("/api/v1/tokens", { params: { query: { limit: 200, cursor } } }))),
  });
