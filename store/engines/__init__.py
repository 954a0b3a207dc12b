"""The supported database engines. Only `store` imports them."""
