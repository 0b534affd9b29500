"""Rules of joins: whose row comes next."""
