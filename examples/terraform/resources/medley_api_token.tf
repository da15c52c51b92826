resource "medley_api_token" "bot" {
  name                = "support bot"
  role                = "client"
  project             = medley_project.support.id
  expires_at          = "2027-06-30T00:00:00Z"
  requests_per_minute = 600
}

output "bot_token" {
  value     = medley_api_token.bot.token
  sensitive = true
}
