resource "medley_project" "support" {
  name                = "support"
  description         = "Chat bots of customer support"
  tokens_per_minute   = 200000
  concurrent_requests = 64
}
