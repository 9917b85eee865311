# Databases. Clients that read or change a database, and migrations.
package sallyport.rules

# METADATA
# title: Database client
# custom:
#   id: database.client
#   tier: L3
#   reason: it touches a database
#   remedy: work on a fixture file or a test database the person you work for named
hit contains rego.metadata.rule().custom if {
	input.cmd.class == "database"
	not asks_help
}

# METADATA
# title: Database in a file
# custom:
#   id: database.file
#   tier: L2
#   reason: it opens a database file
#   remedy: ""
#   obligations: {write: transaction}
hit contains rego.metadata.rule().custom if {
	input.cmd.program in {"sqlite3", "sqlite", "duckdb"}
	not asks_help
}

# METADATA
# title: Migration
# custom:
#   id: database.migrate
#   tier: L3
#   reason: it changes the schema or the rows of a database
#   remedy: ask the person you work for to run the migration
hit contains rego.metadata.rule().custom if {
	input.cmd.program in {"rake", "rails", "bundle", "php", "artisan", "mix", "npm", "pnpm", "yarn", "bun", "cap"}
	some a in input.cmd.argv
	regex.match(`^(db:(migrate|drop|reset|setup|schema:load|rollback|seed)(:.*)?|migrate:(fresh|refresh|reset|rollback)|ecto\.(migrate|drop|reset|rollback)|deploy:migrate)$`, a)
}

# METADATA
# title: Migration tool
# custom:
#   id: database.migrate-tool
#   tier: L3
#   reason: it changes the schema or the rows of a database
#   remedy: ask the person you work for to run the migration
hit contains rego.metadata.rule().custom if {
	input.cmd.program in {"alembic", "prisma", "knex", "sequelize", "typeorm", "drizzle-kit", "diesel", "migrate", "atlas", "python", "python2", "python3"}
	database_migrates
}

database_migrates if input.cmd.sub in database_tools[input.cmd.program]

database_migrates if {
	input.cmd.program in {"python", "python2", "python3"}
	some a in input.cmd.argv
	endswith(a, "manage.py")
	word({"migrate", "flush", "sqlflush", "dbshell", "loaddata"})
}

database_tools := {
	"alembic": {"upgrade", "downgrade", "stamp"},
	"prisma": {"migrate", "db"},
	"knex": {"migrate:latest", "migrate:rollback", "seed:run"},
	"sequelize": {"db:migrate", "db:drop"},
	"typeorm": {"migration:run", "migration:revert", "schema:drop", "schema:sync"},
	"drizzle-kit": {"push", "migrate"},
	"diesel": {"migration", "database"},
	"migrate": {"up", "down", "drop", "force", "goto"},
	"atlas": {"schema", "migrate"},
}
