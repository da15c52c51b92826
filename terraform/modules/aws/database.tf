# The password is made while Terraform runs, and goes to the database and to the secret: to no plan, state or output.

ephemeral "random_password" "database" {
  length  = 40
  special = false
}

resource "aws_db_subnet_group" "this" {
  name       = var.name
  subnet_ids = var.private_subnet_ids
  tags       = local.tags
}

resource "aws_db_parameter_group" "this" {
  name_prefix = "${var.name}-"
  family      = "postgres17"
  description = "${var.name}: TLS for all, and slow statements in the log"
  tags        = local.tags

  parameter {
    name  = "rds.force_ssl"
    value = "1"
  }

  parameter {
    name  = "log_min_duration_statement"
    value = "1000"
  }

  # Who opened a connection, and what was changed in the tables' shape
  parameter {
    name  = "log_connections"
    value = "1"
  }

  parameter {
    name  = "log_statement"
    value = "ddl"
  }

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_db_instance" "this" {
  #checkov:skip=CKV_AWS_161:Medley signs in by password, which is in Secrets Manager only; tokens of IAM live for 15 minutes, pools of connections for weeks
  identifier     = var.name
  engine         = "postgres"
  engine_version = "17"
  instance_class = var.database_instance_class
  db_name        = "medley"
  port           = 5432

  username            = "medley"
  password_wo         = ephemeral.random_password.database.result
  password_wo_version = var.database_password_version

  allocated_storage     = var.database_storage_gib
  max_allocated_storage = 4 * var.database_storage_gib
  storage_type          = "gp3"
  storage_encrypted     = true
  kms_key_id            = aws_kms_key.this.arn

  multi_az               = true
  db_subnet_group_name   = aws_db_subnet_group.this.name
  vpc_security_group_ids = [aws_security_group.this["database"].id]
  publicly_accessible    = false
  parameter_group_name   = aws_db_parameter_group.this.name
  ca_cert_identifier     = "rds-ca-rsa2048-g1"

  backup_retention_period   = var.backup_retention_days
  copy_tags_to_snapshot     = true
  deletion_protection       = var.deletion_protection
  delete_automated_backups  = false
  skip_final_snapshot       = false
  final_snapshot_identifier = "${var.name}-final"

  auto_minor_version_upgrade      = true
  performance_insights_enabled    = true
  performance_insights_kms_key_id = aws_kms_key.this.arn
  monitoring_interval             = 60
  monitoring_role_arn             = aws_iam_role.database_monitoring.arn
  enabled_cloudwatch_logs_exports = ["postgresql", "upgrade"]
  tags                            = local.tags
}

locals {
  database_tls = var.database_ca == "" ? "sslmode=require" : "sslmode=verify-full&sslrootcert=${local.home}/database-ca.pem"
}

resource "aws_secretsmanager_secret" "database_url" {
  #checkov:skip=CKV2_AWS_57:A new password is made by database_password_version, since tasks have to start again with it
  name_prefix = "${var.name}-database-url-"
  description = "Where Medley's database is, with its password"
  kms_key_id  = aws_kms_key.this.arn
  tags        = local.tags
}

resource "aws_secretsmanager_secret_version" "database_url" {
  secret_id = aws_secretsmanager_secret.database_url.id
  secret_string_wo = format(
    "postgresql://medley:%s@%s:5432/medley?%s", ephemeral.random_password.database.result, aws_db_instance.this.address, local.database_tls
  )
  secret_string_wo_version = var.database_password_version
}

# Filled by the task of the output first_token_command.
resource "aws_secretsmanager_secret" "first_token" {
  #checkov:skip=CKV2_AWS_57:It is made once, and ends by `medley token revoke`
  name_prefix = "${var.name}-first-token-"
  description = "The first admin token of Medley's API"
  kms_key_id  = aws_kms_key.this.arn
  tags        = local.tags
}
