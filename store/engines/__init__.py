"""The supported database engines. Only the package `store` imports this package."""
