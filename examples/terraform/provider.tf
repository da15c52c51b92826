terraform {
  required_providers {
    medley = {
      source  = "medley/medley"
      version = "~> 0.1"
    }
  }
}

# The token comes from MEDLEY_TOKEN.
provider "medley" {
  endpoint = "https://medley.example.com"
}
