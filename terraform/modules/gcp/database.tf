# The password is made while Terraform runs, and goes to the database and to the secret: to no plan, state or output.

ephemeral "random_password" "database" {
  length  = 40
  special = false
}

resource "google_sql_database_instance" "this" {
  #checkov:skip=CKV_GCP_6:Only encrypted connections are taken, by ssl_mode; clients prove themselves by password, not by certificate
  #checkov:skip=CKV_GCP_79:A new major release is a decision, and an interruption
  #checkov:skip=CKV_GCP_108:Names would be asked for at every connection; addresses are logged
  #checkov:skip=CKV2_GCP_13:Durations of all statements would fill the log; Query Insights has them
  project             = var.project_id
  name                = var.name
  region              = var.region
  database_version    = "POSTGRES_17"
  deletion_protection = var.deletion_protection
  depends_on          = [google_service_networking_connection.services, google_project_service.this]

  settings {
    tier                        = var.database_tier
    edition                     = "ENTERPRISE"
    availability_type           = "REGIONAL"
    disk_type                   = "PD_SSD"
    disk_size                   = var.database_storage_gib
    disk_autoresize             = true
    deletion_protection_enabled = var.deletion_protection
    user_labels                 = local.labels

    ip_configuration {
      ipv4_enabled    = false
      private_network = data.google_compute_network.this.id
      ssl_mode        = "ENCRYPTED_ONLY"
    }

    backup_configuration {
      enabled                        = true
      point_in_time_recovery_enabled = true
      transaction_log_retention_days = 7
      backup_retention_settings {
        retained_backups = var.backup_retention_days
        retention_unit   = "COUNT"
      }
    }

    insights_config {
      query_insights_enabled = true
    }

    maintenance_window {
      day          = 7
      hour         = 3
      update_track = "stable"
    }

    database_flags {
      name  = "log_checkpoints"
      value = "on"
    }

    database_flags {
      name  = "log_connections"
      value = "on"
    }

    database_flags {
      name  = "log_disconnections"
      value = "on"
    }

    database_flags {
      name  = "log_lock_waits"
      value = "on"
    }

    database_flags {
      name  = "log_min_error_statement"
      value = "error"
    }

    database_flags {
      name  = "log_statement"
      value = "ddl"
    }

    database_flags {
      name  = "cloudsql.enable_pgaudit"
      value = "on"
    }
  }
}

resource "google_sql_database" "this" {
  project  = var.project_id
  instance = google_sql_database_instance.this.name
  name     = "medley"
}

resource "google_sql_user" "this" {
  project             = var.project_id
  instance            = google_sql_database_instance.this.name
  name                = "medley"
  password_wo         = ephemeral.random_password.database.result
  password_wo_version = var.database_password_version
}

locals {
  secrets = {
    database-url = "Where Medley's database is, with its password"
    database-ca  = "By which the database's certificate is verified"
    first-token  = "The first admin token, put there by the job of the output first_token_command"
  }
}

resource "google_secret_manager_secret" "this" {
  for_each = local.secrets

  project             = var.project_id
  secret_id           = "${var.name}-${each.key}"
  deletion_protection = false
  labels              = local.labels
  annotations         = { purpose = each.value }
  depends_on          = [google_project_service.this]

  replication {
    user_managed {
      replicas {
        location = var.region
      }
    }
  }
}

resource "google_secret_manager_secret_version" "database_url" {
  secret = google_secret_manager_secret.this["database-url"].id
  secret_data_wo = format(
    "postgresql://medley:%s@%s:5432/medley?sslmode=verify-ca&sslrootcert=/run/database/ca.pem",
    ephemeral.random_password.database.result, google_sql_database_instance.this.private_ip_address
  )
  secret_data_wo_version = var.database_password_version
}

# No secret, but this is how it gets to every process.
resource "google_secret_manager_secret_version" "database_ca" {
  secret      = google_secret_manager_secret.this["database-ca"].id
  secret_data = google_sql_database_instance.this.server_ca_cert[0].cert
}
