resource "medley_project" "support" {
  name        = "support"
  description = "Chat bots of customer support"
}
