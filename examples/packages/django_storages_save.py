"""With `file_overwrite=False` a file of a name that is taken gets another name: no upload replaces another."""

from django.conf import settings
from django.core.files.base import ContentFile
from storages.backends.s3 import S3Storage

PACKAGE = "django-storages"
PLACE = "documentation, Amazon S3, AWS_S3_FILE_OVERWRITE"
FAULTS = "none"
if not settings.configured:
    settings.configure(STATIC_URL="/static/")


def upload(world):
    storage = S3Storage(bucket_name="bucket", file_overwrite=False, querystring_auth=False)
    world.note("saved as", storage.save("report.txt", ContentFile(world.me.encode())))


def names_differ(view):
    names = view.notes("saved as")
    assert len(names) == len(set(names)), f"two files are saved as {names[0]}, and one of them is gone"


def program(world):
    world.boto3_bucket("bucket")
    for name in ("ann", "bob"):
        world.spawn(upload, world, name=name)
    world.always("no file replaces another", names_differ)
