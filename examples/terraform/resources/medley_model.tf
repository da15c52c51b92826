resource "medley_model" "own" {
  name    = "own-7b"
  config  = file("own-7b/config.json")
  weights = "path:/models/own-7b"
}
