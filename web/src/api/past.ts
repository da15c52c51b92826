import { infiniteQueryOptions } from "@tanstack/react-query";
import { api, got } from "./client";

export type Asked = { fleet?: string; kind?: string; subject?: string };

/** Newest first; a page of older ones at a time. */
export const events = (asked: Asked) =>
  infiniteQueryOptions({
    queryKey: ["events", asked],
    queryFn: ({ pageParam }) => got(api.GET("/api/v1/events", { params: { query: { ...asked, limit: 100, cursor: pageParam } } })),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.next ?? undefined,
  });
