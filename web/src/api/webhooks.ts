import { queryOptions } from "@tanstack/react-query";
import { api, got, type Schemas, whole } from "./client";

export type Webhook = Schemas["Webhook"];

export const webhooks = () =>
  queryOptions({
    queryKey: ["webhooks"],
    queryFn: () => got(api.GET("/api/v1/webhooks")),
    refetchInterval: 30_000,
  });

/** What a change of it has to name. */
export async function webhookEtag(webhook: string): Promise<string> {
  return (await whole(api.GET("/api/v1/webhooks/{webhook}", { params: { path: { webhook } } }))).response.headers.get("etag") ?? "";
}
