"""Authentication, authorisation, limits and the audit log.

* `guard`: the interface. `gate`: its implementation for a started server.
* `auth`, `passwords`, `tokens`, `jwks`, `certificates`, `backoff`: authentication.
* `needs`, `endpoint_needs`, `access`, `visible`: authorisation.
* `limits`, `origins`, `audit`: limits, allowed origins, the audit log.
"""
