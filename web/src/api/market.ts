import { queryOptions } from "@tanstack/react-query";
import { all, api, got, type Schemas } from "./client";

export type Cell = Schemas["MarketCell"];
export type Offer = Schemas["Offer"];
export type Market = Schemas["Market"];

const EVERY_MS = 60_000;

export const cells = (market: Market) =>
  queryOptions({
    queryKey: ["offers", "cells", market],
    queryFn: () => got(api.GET("/api/v1/markets/cells", { params: { query: { market } } })),
    refetchInterval: EVERY_MS,
  });

/** Offers of one region and kind of GPU, in all markets. */
export const offersOf = (cloud: string, region: string, gpu: string) =>
  queryOptions({
    queryKey: ["offers", "list", cloud, region, gpu],
    queryFn: () =>
      all((cursor) => got(api.GET("/api/v1/offers", { params: { query: { limit: 200, cursor, cloud, region, gpu } } }))),
    refetchInterval: EVERY_MS,
  });

export const priceHistory = (offer: string, since: string) =>
  queryOptions({
    queryKey: ["offers", "history", offer, since],
    queryFn: () => got(api.GET("/api/v1/offers/history", { params: { query: { offer, since } } })),
  });

export const markets = () =>
  queryOptions({
    queryKey: ["markets"],
    queryFn: () => got(api.GET("/api/v1/markets")),
    refetchInterval: EVERY_MS,
  });
