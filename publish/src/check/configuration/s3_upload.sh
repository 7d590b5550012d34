# The files with a hash in their name first, then the file that apps open.
aws s3 cp FILE s3://BUCKET/ --content-type application/octet-stream \
    --cache-control "public, max-age=31536000, immutable, no-transform"
aws s3 cp ENTRY s3://BUCKET/ --content-type application/octet-stream --cache-control "no-cache, no-transform"
